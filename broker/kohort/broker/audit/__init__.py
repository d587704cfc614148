"""Who did what to which resource, and whether it was let: a file of JSON lines."""
