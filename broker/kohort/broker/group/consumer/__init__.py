"""Consumer groups (KIP-848): members send their subscriptions in heartbeats, and receive their assignments.

Imported with the first such group. `heartbeats` handles a member's request, `target` computes the
assignment, `reconciling` brings one member towards it, `replaying` alone changes logged state.
"""
