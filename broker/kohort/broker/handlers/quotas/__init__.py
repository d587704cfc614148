"""Enforces quotas between the transport and the handlers, if there are any."""
