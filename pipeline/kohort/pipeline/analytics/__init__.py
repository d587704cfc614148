"""What a broker's internal topics show about its groups: lag, throughput, verdicts, rebalances."""
