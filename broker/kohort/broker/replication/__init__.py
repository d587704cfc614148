"""A partition on several brokers: the leader's knowledge of its followers, and how these follow it.

Pure: no loop, clock, socket or log. The caller passes in times, offsets and states, and does what
is returned. The order on which all of it relies: a follower syncs its records, and only then confirms them
by the offset of its next fetch; the leader counts nothing else.
Source: kafka.cluster.Partition, kafka.server.AbstractFetcherThread, KIP-101, KIP-595, KIP-903, KIP-966.
"""

from kohort.broker.replication.authority import Authority
from kohort.broker.replication.following import Append, Following, Restart, Retry, Truncate
from kohort.broker.replication.leadership import Acknowledgement, Leadership, Proposal
from kohort.broker.replication.logs import ReplicatedLog
from kohort.broker.replication.read_replica import check_follower_read, select_read_replica
from kohort.broker.replication.replica_fetch import Diverging, FetchFrom, ReplicaFetch, Served, answer_to
from kohort.broker.replication.soundness import Found, has_all
from kohort.broker.replication.throttle import UNLIMITED, Throttle, is_named

__all__ = [
    "UNLIMITED",
    "Acknowledgement",
    "Append",
    "Authority",
    "Diverging",
    "FetchFrom",
    "Following",
    "Found",
    "Leadership",
    "Proposal",
    "ReplicaFetch",
    "ReplicatedLog",
    "Restart",
    "Retry",
    "Served",
    "Throttle",
    "Truncate",
    "answer_to",
    "check_follower_read",
    "has_all",
    "is_named",
    "select_read_replica",
]
