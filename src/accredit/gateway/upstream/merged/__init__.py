"""Several servers as one endpoint: requests to all of them, or to one of them, under unique names."""
