"""What a test hears when the broker beside it is in trouble, or when something does not happen."""


class BrokerFailed(RuntimeError):
    """The broker has ended, or cannot do what was asked; the cause is in `__cause__`."""


class NotInTime(AssertionError):
    """A condition did not come true in time; the text says what the broker has seen."""
