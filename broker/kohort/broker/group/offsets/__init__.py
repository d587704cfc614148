"""The offsets that groups of every kind commit: kept, looked up, removed, and those of open transactions."""
