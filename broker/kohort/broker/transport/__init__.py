"""Bytes to requests and back: connections, and the loop that drives them."""
