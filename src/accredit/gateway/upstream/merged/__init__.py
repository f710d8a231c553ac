"""Several servers as one endpoint: each request goes to all of them, or to the one that is named in its target's
unique name."""
