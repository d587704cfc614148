"""The base of all parts: time, timers, threads and tasks, and calls into the loop from other threads."""
