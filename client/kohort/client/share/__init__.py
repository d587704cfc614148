"""Share groups (KIP-932): records handed out one by one, each acknowledged by itself.

`membership` is the member's side of the group, `acknowledgements` the records that the user has and how they
are acknowledged, `node_session` what one broker knows of this consumer: all pure. `fetcher` asks the brokers,
`session` is what both consumers have in common, and they are `share.consumer` and `blocking.share_consumer`.
"""
