"""What is on record of each call: its decision, its outcome, and calls that end early or late."""
