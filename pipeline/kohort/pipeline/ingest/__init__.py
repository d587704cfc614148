"""From a topic to a table, exactly once for its readers, with the true lag of the group."""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
