"""The transaction coordinator's pure core: it knows no loop, clock, socket, randomness or log."""
