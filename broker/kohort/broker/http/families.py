"""The names of every metric.

Those that begin with `kohort_` are in the style of Prometheus: base units, `_total` on what only grows.
Where dashboards for Kafka know a name, the value has that name as well: what jmx_exporter makes of Kafka's
MBeans (in small letters, and untyped where it is no gauge), and what kafka_exporter shows.
"""

from kohort.protocol.metric_family import Family

INFO = Family("kohort_info", "gauge", ("version", "cluster_id", "node_id"), "Always 1; says which broker.")

READY = Family("kohort_ready", "gauge", (), "1 while /health/ready says 200, else 0.")
DISK_FREE = Family("kohort_disk_free_bytes", "gauge", (), "What the data folder's disk can still take.")
DISK_TOTAL = Family("kohort_disk_total_bytes", "gauge", (), "The size of the data folder's disk.")
LOOP_LAG = Family(
    "kohort_loop_lag_seconds_max", "gauge", (), "The most that the event loop was late in the last minute."
)
TASK_UP = Family(
    "kohort_task_up", "gauge", ("task",), "1 while a background task is well, 0 while it is down or hangs."
)
TASK_RESTARTS = Family(
    "kohort_task_restarts_total",
    "counter",
    ("task",),
    "How often a background task failed and was restarted.",
)

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
HANDSHAKES_FAILED = Family(
    "kohort_tls_handshakes_failed_total", "counter", (), "TLS handshakes that ended without a connection."
)
AUTHENTICATIONS = Family(
    "kohort_sasl_authentications_total", "counter", (), "Clients that have shown by SASL who they are."
)
AUTHENTICATIONS_FAILED = Family(
    "kohort_sasl_authentications_failed_total", "counter", (), "Clients that have not."
)
LOCKED_OUT = Family(
    "kohort_sasl_locked_out_total",
    "counter",
    (),
    "Of those: clients that were not looked at, since too many wrong passwords came before.",
)
AUDIT_LINES_LOST = Family(
    "kohort_audit_lines_lost_total",
    "counter",
    (),
    "Lines of the audit log that were lost: the disk was too slow, full, or failed.",
)
AUTHENTICATIONS_EXPIRED = Family(
    "kohort_sasl_authentications_expired_total",
    "counter",
    (),
    "Connections closed since their client had to say again who it is.",
)

PRODUCED_BATCHES = Family(
    "kohort_produced_batches_total", "counter", (), "Record batches appended for clients."
)
PRODUCED_RECORDS = Family("kohort_produced_records_total", "counter", (), "Records appended for clients.")
PRODUCED_BYTES = Family(
    "kohort_produced_bytes_total", "counter", (), "Bytes of batches appended for clients."
)
FETCHED_BYTES = Family("kohort_fetched_bytes_total", "counter", (), "Bytes of batches given to clients.")
FETCH_SESSIONS = Family("kohort_fetch_sessions", "gauge", (), "Incremental fetch sessions that are kept.")
FETCH_SESSIONS_EVICTED = Family(
    "kohort_fetch_sessions_evicted_total", "counter", (), "Fetch sessions that made room for others."
)
FLUSHES = Family("kohort_flush_seconds", "histogram", (), "How long a group commit took, with its sync.")
FLUSH_FAILURES = Family("kohort_flush_failures_total", "counter", (), "Group commits that failed in a log.")
CLEANER_ROUNDS = Family("kohort_log_cleaner_rounds_total", "counter", (), "Logs compacted, one a round.")
CLEANER_SECONDS = Family("kohort_log_cleaner_seconds_total", "counter", (), "Time that compaction took.")
CLEANER_READ = Family("kohort_log_cleaner_read_bytes_total", "counter", (), "Bytes that compaction read.")
CLEANER_WRITTEN = Family(
    "kohort_log_cleaner_written_bytes_total", "counter", (), "Bytes that compaction wrote."
)
CLEANER_DIRTY_RATIO = Family(
    "kohort_log_cleaner_dirty_ratio_max", "gauge", (), "The dirty share of the dirtiest compacted log."
)
CLEANER_UNCLEANABLE = Family(
    "kohort_log_cleaner_uncleanable_partitions", "gauge", (), "Logs that could not be compacted."
)
SEGMENTS_DELETED = Family(
    "kohort_log_deleted_segments_total", "counter", (), "Segments deleted by retention."
)
PRODUCERS_EXPIRED = Family(
    "kohort_expired_producers_total", "counter", (), "Idempotent producers forgotten since they were idle."
)

GROUPS = Family("kohort_groups", "gauge", ("state",), "Groups by their state.")
GROUP_MEMBERS = Family("kohort_group_members", "gauge", (), "Members of all groups.")
SHARDS_LOADING = Family(
    "kohort_group_shards_loading", "gauge", (), "Partitions of __consumer_offsets that are being loaded."
)
OFFSET_COMMITS = Family("kohort_offset_commits_total", "counter", (), "Offsets committed, one a partition.")
OFFSET_FETCHES = Family("kohort_offset_fetches_total", "counter", (), "Offsets asked for, one a partition.")
REBALANCES = Family("kohort_rebalances_total", "counter", ("cause",), "Rebalances begun, by their cause.")
REBALANCE_SECONDS = Family(
    "kohort_rebalance_seconds", "histogram", (), "How long rebalances took, from cause to assignment."
)
MEMBERS_EXPIRED = Family("kohort_members_expired_total", "counter", (), "Members that missed their timeout.")
MEMBERS_FENCED = Family(
    "kohort_members_fenced_total", "counter", (), "Static members that a second claimant replaced."
)

REBALANCE_JOIN_SECONDS = Family(
    "kohort_rebalance_join_seconds", "histogram", (), "How long a rebalance waited for its members to join."
)
REBALANCE_SYNC_SECONDS = Family(
    "kohort_rebalance_sync_seconds", "histogram", (), "How long a rebalance waited for its leader to assign."
)
PARTITIONS_MOVED = Family(
    "kohort_partitions_moved_total", "counter", (), "Partitions that rebalances gave to another member."
)
STILL_SECONDS = Family(
    "kohort_partitions_still_seconds_total",
    "counter",
    (),
    "How long partitions that moved were read by nobody, added up.",
)
OFFSETS_REMOVED = Family("kohort_offsets_removed_total", "counter", ("reason",), "Offsets that were let go.")
SHARD_LOAD_SECONDS = Family(
    "kohort_group_shard_load_seconds", "histogram", (), "How long a partition's groups took to load."
)
DEAD_LETTERS = Family(
    "kohort_share_dead_letters_total", "counter", (), "Dead letters that share groups have written."
)
DEAD_LETTERS_MISSING = Family(
    "kohort_share_dead_letters_missing_total",
    "counter",
    (),
    "Records that share groups have given up without the dead letter that they should have.",
)
GROUP_EVENTS = Family("kohort_group_events_total", "counter", (), "Records written to __group_events.")
GROUP_EVENTS_DROPPED = Family(
    "kohort_group_events_dropped_total", "counter", (), "Events that __group_events could not take."
)

_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
NUM_GROUPS = Family(f"{_MANAGER}numgroups", "gauge", (), "Groups.")
NUM_GROUPS_BY_STATE = {
    state: Family(f"{_MANAGER}numgroups{state.lower()}", "gauge", (), f"Groups in the state {state}.")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
}
NUM_OFFSETS = Family(f"{_MANAGER}numoffsets", "gauge", (), "Offsets that are kept.")

_COORDINATOR = "kafka_server_group_coordinator_metrics_"
GROUP_COUNT = Family(f"{_COORDINATOR}group_count", "gauge", ("protocol",), "Groups by their protocol.")
GROUP_COUNTS_BY_STATE = {
    kind: Family(f"{_COORDINATOR}{kind}_group_count", "gauge", ("state",), f"{words} groups by their state.")
    for kind, words in (("consumer", "Consumer"), ("share", "Share"), ("streams", "Streams"))
}
NUM_PARTITIONS = Family(
    f"{_COORDINATOR}num_partitions",
    "gauge",
    ("state",),
    "Partitions of __consumer_offsets: active, loading, failed.",
)
PARTITION_LOAD_TIME_MAX = Family(
    f"{_COORDINATOR}partition_load_time_max",
    "gauge",
    (),
    "The longest load of a partition since the start, in ms.",
)
PARTITION_LOAD_TIME_AVG = Family(
    f"{_COORDINATOR}partition_load_time_avg",
    "gauge",
    (),
    "The mean load of a partition since the start, in ms.",
)
OFFSET_COMMIT_COUNT = Family(f"{_COORDINATOR}offset_commit_count", "unknown", (), "Offsets committed.")
OFFSET_EXPIRATION_COUNT = Family(f"{_COORDINATOR}offset_expiration_count", "unknown", (), "Offsets expired.")
OFFSET_DELETION_COUNT = Family(
    f"{_COORDINATOR}offset_deletion_count", "unknown", (), "Offsets deleted on request or with their topic."
)
REBALANCE_COUNT = Family(
    f"{_COORDINATOR}group_completed_rebalance_count",
    "unknown",
    (),
    "Rebalances that led to an assignment.",
)

_OF_PARTITION = ("consumergroup", "topic", "partition")
_OF_TOPIC = ("consumergroup", "topic")
CONSUMERGROUP_OFFSET = Family(
    "kafka_consumergroup_current_offset", "gauge", _OF_PARTITION, "The offset that a group has committed."
)
CONSUMERGROUP_OFFSET_SUM = Family(
    "kafka_consumergroup_current_offset_sum", "gauge", _OF_TOPIC, "Those of all partitions of a topic."
)
CONSUMERGROUP_LAG = Family(
    "kafka_consumergroup_lag",
    "gauge",
    _OF_PARTITION,
    "Offsets from the first record that the group has yet to read to the partition's end.",
)
CONSUMERGROUP_LAG_SUM = Family(
    "kafka_consumergroup_lag_sum", "gauge", _OF_TOPIC, "Those of all partitions of a topic."
)
CONSUMERGROUP_LAG_SECONDS = Family(
    "kohort_consumergroup_lag_seconds",
    "gauge",
    _OF_PARTITION,
    "The age of the oldest record that the group has not committed; 0 without lag.",
)
CONSUMERGROUP_VERDICTS = Family(
    "kohort_consumergroup_partitions",
    "gauge",
    ("consumergroup", "verdict"),
    "Partitions of a group by how it does in them: ok, warn, stall, stop, rewind.",
)
CONSUMERGROUP_STALE = Family(
    "kohort_consumergroup_partitions_stale",
    "gauge",
    ("consumergroup",),
    "Partitions of a group whose lag is old or missing: their leader has not answered, or there is none.",
)
CONSUMERGROUP_MEMBERS = Family(
    "kafka_consumergroup_members", "gauge", ("consumergroup",), "Members of a group."
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


LEFT_OUT = Family(
    "kohort_metrics_left_out",
    "gauge",
    ("of",),
    "Groups, logs and partitions of topics that have no series of their own, since there are too many: see "
    "kohort.metrics.groups.max and kohort.metrics.partitions.max.",
)

_PLACE = ("topic", "partition")
BROKERS = Family("kafka_brokers", "gauge", (), "Brokers of the cluster.")
TOPIC_PARTITIONS = Family("kafka_topic_partitions", "gauge", ("topic",), "Partitions of a topic.")
TOPIC_CURRENT_OFFSET = Family(
    "kafka_topic_partition_current_offset", "gauge", _PLACE, "The offset before which readers see all."
)
TOPIC_OLDEST_OFFSET = Family(
    "kafka_topic_partition_oldest_offset", "gauge", _PLACE, "The first offset that can be read."
)
TOPIC_LEADER = Family("kafka_topic_partition_leader", "gauge", _PLACE, "The broker that leads a partition.")
TOPIC_REPLICAS = Family("kafka_topic_partition_replicas", "gauge", _PLACE, "Replicas of a partition.")
TOPIC_IN_SYNC = Family(
    "kafka_topic_partition_in_sync_replica", "gauge", _PLACE, "Replicas that hold all that is acknowledged."
)
TOPIC_UNDER_REPLICATED = Family(
    "kafka_topic_partition_under_replicated_partition", "gauge", _PLACE, "1 where replicas lag behind."
)

_REPLICAS = "kafka_server_replicamanager_"
LEADER_COUNT = Family(f"{_REPLICAS}leadercount", "gauge", (), "Partitions that this broker leads.")
PARTITION_COUNT = Family(f"{_REPLICAS}partitioncount", "gauge", (), "Replicas that this broker holds.")
UNDER_REPLICATED = Family(
    f"{_REPLICAS}underreplicatedpartitions", "gauge", (), "Led here, with replicas that are not in sync."
)
UNDER_MIN_ISR = Family(
    f"{_REPLICAS}underminisrpartitioncount", "gauge", (), "Led here, with too few in sync for acks=all."
)
AT_MIN_ISR = Family(
    f"{_REPLICAS}atminisrpartitioncount",
    "gauge",
    (),
    "Led here, with as many in sync as acks=all needs.",
)
REASSIGNING = Family(
    f"{_REPLICAS}reassigningpartitions", "gauge", (), "Led here, on the way to other brokers."
)
ISR_SHRINKS = Family(
    f"{_REPLICAS}isrshrinks_total", "counter", (), "How often a replica of what is led here fell out of sync."
)
ISR_EXPANDS = Family(
    f"{_REPLICAS}isrexpands_total", "counter", (), "How often a replica of what is led here came in sync."
)

_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLERS = Family(
    f"{_CONTROLLER}activecontrollercount", "gauge", (), "1 at the controller, 0 at all others."
)
ACTIVE_BROKERS = Family(
    f"{_CONTROLLER}activebrokercount", "gauge", (), "Live brokers; 0 but at the controller."
)
GLOBAL_TOPICS = Family(f"{_CONTROLLER}globaltopiccount", "gauge", (), "Topics; 0 but at the controller.")
GLOBAL_PARTITIONS = Family(
    f"{_CONTROLLER}globalpartitioncount", "gauge", (), "Partitions; 0 but at the controller."
)
OFFLINE_PARTITIONS = Family(
    f"{_CONTROLLER}offlinepartitionscount",
    "gauge",
    (),
    "Partitions nobody leads; 0 but at the controller.",
)
PREFERRED_IMBALANCE = Family(
    f"{_CONTROLLER}preferredreplicaimbalancecount",
    "gauge",
    (),
    "Partitions that another than their first replica leads; 0 but at the controller.",
)
_STATS = "kafka_controller_controllerstats_"
LEADER_ELECTIONS = Family(
    f"{_STATS}leaderelectionrateandtimems_count", "unknown", (), "Leaders that this broker elected."
)
UNCLEAN_ELECTIONS = Family(
    f"{_STATS}uncleanleaderelections_total", "counter", (), "Of them those that may have lacked something."
)

TELEMETRY_CLIENTS = Family(
    "kohort_client_metrics_clients", "gauge", (), "Clients whose own metrics (KIP-714) are kept."
)
TELEMETRY_SERIES = Family("kohort_client_metrics_series", "gauge", (), "Series that these clients have sent.")
TELEMETRY_PUSHES = Family(
    "kohort_client_metrics_pushes_total", "counter", (), "Times that a client has sent its metrics."
)
TELEMETRY_REFUSED = Family(
    "kohort_client_metrics_refused_total",
    "counter",
    ("error",),
    "Questions for subscriptions and pushes of metrics that were refused.",
)
TELEMETRY_LEFT_OUT = Family(
    "kohort_client_metrics_left_out_total",
    "counter",
    (),
    "Values of clients that there was no room for.",
)

_CLIENT = ("user", "client_id")
_THROTTLE = "For how long a client that waits now was told to, in ms; 0 where none does."
QUOTA_USES = {
    "producer_byte_rate": Family(
        "kafka_server_produce_byte_rate", "gauge", _CLIENT, "Bytes produced a second, where there is a quota."
    ),
    "consumer_byte_rate": Family(
        "kafka_server_fetch_byte_rate", "gauge", _CLIENT, "Bytes fetched a second, where there is a quota."
    ),
    "request_percentage": Family(
        "kafka_server_request_request_time",
        "gauge",
        _CLIENT,
        "Percent of the loop's time, where there is a quota.",
    ),
    "controller_mutation_rate": Family(
        "kafka_server_controllermutation_tokens",
        "gauge",
        _CLIENT,
        "Partitions that may be made or go at once, where there is a quota; below 0 that many too many.",
    ),
}
QUOTA_THROTTLES = {
    "producer_byte_rate": Family("kafka_server_produce_throttle_time", "gauge", _CLIENT, _THROTTLE),
    "consumer_byte_rate": Family("kafka_server_fetch_throttle_time", "gauge", _CLIENT, _THROTTLE),
    "request_percentage": Family("kafka_server_request_throttle_time", "gauge", _CLIENT, _THROTTLE),
    "controller_mutation_rate": Family(
        "kafka_server_controllermutation_throttle_time", "gauge", _CLIENT, _THROTTLE
    ),
}

_HERE = list(globals().values())
FAMILIES: tuple[Family, ...] = tuple(
    family
    for value in _HERE
    for family in (value.values() if isinstance(value, dict) else (value,))
    if isinstance(family, Family)
)
"""Every family, in the order in which it is shown."""
