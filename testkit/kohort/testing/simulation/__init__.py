"""A whole Kafka application in virtual time, from one seed: `simulate` runs a test in a `World`.

Names are imported when they are used: who does not simulate imports nothing.
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
