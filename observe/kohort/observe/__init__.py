"""An observer beside any Kafka cluster: why its groups rebalance, without a group or a commit of its own.

It follows `__consumer_offsets`, asks the cluster now and then, and keeps a history.
"""
