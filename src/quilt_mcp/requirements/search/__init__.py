"""Full-text search in the requirements database."""
