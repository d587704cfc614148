"""The share coordinator's pure core: what share groups have done with records, kept in `__share_group_state`.

It knows no loop, clock, socket, randomness or log.
"""
