"""Tells in words what differs between the goldens of two git revisions. Standard library only."""
