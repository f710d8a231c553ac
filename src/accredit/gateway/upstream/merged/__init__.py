"""Several servers as one endpoint: each request goes to all of them, or to the one that its target's unique name
shows."""
