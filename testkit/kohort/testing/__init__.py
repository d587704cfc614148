"""A broker inside a user's test."""
