"""A broker inside a user's test: `with Broker() as broker: ... broker.bootstrap`.

Names are imported when they are used, because pytest imports this package wherever kohort is installed.
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
