"""What the `accredit log` commands run."""
