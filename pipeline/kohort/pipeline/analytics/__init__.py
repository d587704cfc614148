"""What a broker's own topics say of its groups: lag, throughput, verdicts, rebalances."""
