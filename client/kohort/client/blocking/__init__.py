"""The blocking clients: each has an event loop in a thread of its own."""
