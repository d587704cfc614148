"""SASL authentication, imported only if a listener uses it."""
