"""One module for each category of Quilt resources; each resource is one function."""
