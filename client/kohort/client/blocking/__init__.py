"""The blocking clients: each has an event loop in a separate thread."""
