"""What is asked about share groups, and by their members (KIP-932)."""
