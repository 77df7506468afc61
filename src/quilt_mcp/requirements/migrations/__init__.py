"""Alembic's migrations of the requirements database. Each is frozen: it says itself what it makes."""
