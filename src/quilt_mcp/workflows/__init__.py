"""The workflow domain: lists of steps that last across conversations."""
