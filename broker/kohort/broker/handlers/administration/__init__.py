"""Handlers of requests about the cluster: brokers, topics, configurations."""
