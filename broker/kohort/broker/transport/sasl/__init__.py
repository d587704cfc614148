"""Clients that say who they are before they ask anything else; imported only where a listener wants it."""
