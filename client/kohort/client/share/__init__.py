"""Share groups (KIP-932): records are delivered one by one, each with its own acknowledgement.

`membership` is the member's side of the group, `acknowledgements` the acquired records and their
acknowledgements, `node_session` the share session with one broker: all pure. `fetcher` asks the brokers,
`session` is the common part of both consumers: `share.consumer` and `blocking.share_consumer`.
"""
