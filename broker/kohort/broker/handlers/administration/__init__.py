"""What is asked of the cluster: its brokers, its topics, their configurations."""
