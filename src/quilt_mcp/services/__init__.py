"""The Quilt domain: one module for each category of resources, and one function for each resource."""
