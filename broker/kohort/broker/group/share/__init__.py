"""Share groups (KIP-932): records are delivered to any member, until one has acknowledged them."""
