"""One module per API: a wire message to commands and back, nothing else."""
