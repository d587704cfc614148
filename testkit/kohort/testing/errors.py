"""The errors of a test's broker."""


class BrokerFailed(RuntimeError):
    """The broker has ended, or cannot do the call. The cause is in `__cause__`."""


class NotInTime(AssertionError):
    """A condition did not become true in time. The text has the broker's report."""


class UnexpectedRebalance(AssertionError):
    """A group has rebalanced. The text says why, and has the broker's report."""
