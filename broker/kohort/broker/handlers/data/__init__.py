"""Handlers of requests about records: produce, fetch, and the start and end of logs."""
