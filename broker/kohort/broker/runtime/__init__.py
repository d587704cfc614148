"""The shell around the pure parts: sockets, clocks, timers, flushes, and the shards they drive."""
