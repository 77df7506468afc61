"""Describes the differences between the goldens of two git revisions."""
