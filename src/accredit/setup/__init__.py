"""Commands that get from nothing to a protected server: configurations, first keys, entries of hosts, pins."""
