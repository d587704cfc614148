"""The network layer: connections, polling, framing, and limits of memory in flight."""
