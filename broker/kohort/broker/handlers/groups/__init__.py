"""Handlers of requests about groups: join, heartbeat, leave, offsets, and administration."""
