"""One module per API: a wire message to commands and back, nothing else.

They come in three families, each bound to the parts of the broker that it works with.
"""
