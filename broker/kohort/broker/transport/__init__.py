"""Bytes to requests and answers to bytes: connections, who is ready, how much may be in flight."""
