"""What of a client's message goes on to the server, on whose authority, and in which form."""
