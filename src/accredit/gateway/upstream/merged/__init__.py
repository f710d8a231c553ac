"""Several servers as one: requests to all of them, and to one of them, under unique names."""
