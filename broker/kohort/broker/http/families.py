"""The names of every metric, in the style of Prometheus: base units, `_total` on what only grows.

Kafka's counterparts are the MBeans of kafka.server, kafka.network and kafka.coordinator.group.
"""

from typing import NamedTuple


class Family(NamedTuple):
    """A metric: its name as a query writes it, its kind, its labels, and what it says."""

    name: str
    kind: str
    labels: tuple[str, ...]
    documentation: str


INFO = Family("kohort_info", "gauge", ("version", "cluster_id", "node_id"), "Always 1; says which broker.")

REQUESTS = Family("kohort_requests_total", "counter", ("api",), "Requests that have arrived.")
REQUEST_ERRORS = Family(
    "kohort_request_errors_total", "counter", ("error",), "Errors that clients were answered."
)
MALFORMED_REQUESTS = Family(
    "kohort_malformed_requests_total",
    "counter",
    (),
    "Connections closed since what they sent was no request.",
)
BYTES_IN = Family("kohort_received_bytes_total", "counter", (), "Bytes of requests.")
BYTES_OUT = Family("kohort_sent_bytes_total", "counter", (), "Bytes of answers.")
CONNECTIONS = Family("kohort_connections", "gauge", (), "Open connections of Kafka clients.")
CONNECTIONS_ACCEPTED = Family(
    "kohort_connections_accepted_total", "counter", (), "Connections ever accepted."
)
CONNECTIONS_STALLED = Family(
    "kohort_connections_stalled_total", "counter", (), "Connections closed since their peer stood still."
)

PRODUCED_BATCHES = Family(
    "kohort_produced_batches_total", "counter", (), "Record batches appended for clients."
)
PRODUCED_RECORDS = Family("kohort_produced_records_total", "counter", (), "Records appended for clients.")
PRODUCED_BYTES = Family(
    "kohort_produced_bytes_total", "counter", (), "Bytes of batches appended for clients."
)
FETCHED_BYTES = Family("kohort_fetched_bytes_total", "counter", (), "Bytes of batches given to clients.")
FLUSHES = Family("kohort_flush_seconds", "histogram", (), "How long a group commit took, with its sync.")
FLUSH_FAILURES = Family("kohort_flush_failures_total", "counter", (), "Group commits that failed in a log.")

GROUPS = Family("kohort_groups", "gauge", ("state",), "Groups by their state.")
GROUP_MEMBERS = Family("kohort_group_members", "gauge", (), "Members of all groups.")
SHARDS_LOADING = Family(
    "kohort_group_shards_loading", "gauge", (), "Partitions of __consumer_offsets that are being loaded."
)
OFFSET_COMMITS = Family("kohort_offset_commits_total", "counter", (), "Offsets committed, one a partition.")
OFFSET_FETCHES = Family("kohort_offset_fetches_total", "counter", (), "Offsets asked for, one a partition.")
REBALANCES = Family("kohort_rebalances_total", "counter", ("cause",), "Rebalances begun, by their cause.")
REBALANCE_SECONDS = Family(
    "kohort_rebalance_seconds", "histogram", (), "How long a rebalance let its group stand still."
)
MEMBERS_EXPIRED = Family("kohort_members_expired_total", "counter", (), "Members that missed their timeout.")
MEMBERS_FENCED = Family(
    "kohort_members_fenced_total", "counter", (), "Static members that a second claimant replaced."
)

PARTITIONS = Family("kohort_partitions", "gauge", (), "Partitions of this broker.")
PARTITIONS_OFFLINE = Family("kohort_partitions_offline", "gauge", (), "Partitions whose log failed.")
LOG_START_OFFSET = Family(
    "kohort_log_start_offset", "gauge", ("topic", "partition"), "The first offset that can be read."
)
LOG_END_OFFSET = Family(
    "kohort_log_end_offset", "gauge", ("topic", "partition"), "The offset that the next record gets."
)
HIGH_WATERMARK = Family(
    "kohort_high_watermark", "gauge", ("topic", "partition"), "The offset before which readers see all."
)
LOG_SIZE = Family("kohort_log_size_bytes", "gauge", ("topic", "partition"), "The size of a partition's log.")

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""Every family, in the order in which it is shown."""
