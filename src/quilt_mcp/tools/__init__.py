"""The tools: get_resource, and the three that write workflows."""
