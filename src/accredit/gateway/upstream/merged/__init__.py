"""Several servers as one endpoint: each request goes to all of them, or to the one that the target's merged name
contains."""
