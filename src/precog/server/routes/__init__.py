"""One file per resource, each with a router."""
