"""Consumer groups (KIP-848): members that say in heartbeats what they read, and are told what they have.

Imported with the first such group. `heartbeats` takes a member's words, `target` decides who shall have
what, `reconciling` brings one member towards that, `replaying` alone changes what is logged.
"""
