"""Records of each call: its decision, its outcome, and calls that end early or late."""
