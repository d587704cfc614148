"""The committed offsets of groups of every kind: stored, fetched, removed, and those of open transactions."""
