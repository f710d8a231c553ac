"""What stands behind the gateway: a server over HTTP (`http`) or a child process (`stdio`), as one `backend`."""
