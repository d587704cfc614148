"""Handlers of requests about share groups, and of their members (KIP-932)."""
