"""What submitted code can contain, and how it is loaded."""
