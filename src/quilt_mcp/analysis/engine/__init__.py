"""The analyses. They run in the jail."""
