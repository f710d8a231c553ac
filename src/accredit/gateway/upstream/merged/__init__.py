"""Several servers as one: what is asked of all of them, and what of one, under names that no two share."""
