"""Share groups (KIP-932): records handed out one by one, each acknowledged by itself.

`membership` is the member's side of the group, `acknowledgements` what the user has and has said of it,
`node_session` what one broker knows of this consumer: all pure. `fetcher` speaks with the brokers, `session`
is what both consumers share, and they are `share.consumer` and `blocking.share_consumer`.
"""
