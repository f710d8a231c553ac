"""Commands that set up a protected server: configurations, first keys, entries of hosts, pins."""
