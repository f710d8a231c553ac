"""The servers behind the gateway: over HTTP (`http`) or as a child process (`stdio`), each as a `backend`."""
