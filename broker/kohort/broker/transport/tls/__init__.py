"""TLS under a connection; imported only where a listener speaks it."""
