"""Metrics that clients send to their broker (KIP-714): which are asked for, what was sent, within limits."""
