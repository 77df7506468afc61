"""Helpers that several test modules use."""
