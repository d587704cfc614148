"""How much clients may do: rates, and whose they are. Without any I/O; time is passed in."""
