"""TLS, imported only if a listener uses it."""
