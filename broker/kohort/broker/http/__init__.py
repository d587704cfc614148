"""The broker over HTTP: metrics, health, and the groups as JSON."""
