"""Import and export of requirements."""
