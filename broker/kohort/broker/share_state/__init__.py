"""The share coordinator's pure core: the state of records in share groups, kept in `__share_group_state`.

It knows no loop, clock, socket, randomness or log.
"""
