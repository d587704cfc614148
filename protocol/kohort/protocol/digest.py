"""BLAKE2b, without OpenSSL: `hashlib` loads that for other digests, 3.7 MiB that few brokers make use of."""

try:
    from _blake2 import blake2b
except ImportError:  # A Python that has it elsewhere.
    from hashlib import blake2b

__all__ = ["blake2b"]
