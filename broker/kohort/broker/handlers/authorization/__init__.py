"""Checks permissions between the transport and the handlers, if there is an authorizer."""
