"""Replicated state machines: the shards that run their cores, and how these are loaded and monitored."""
