"""The metrics of `kohort observe`, as /metrics has them. Of several clusters each has a label `cluster`."""

from kohort.protocol.metric_family import Family

_GROUP = ("group_id",)
_PARTITION = ("group_id", "topic_name", "partition_id")
_BURROW_GROUP = ("consumer_group",)
_BURROW_PARTITION = ("consumer_group", "topic", "partition")
_WEBHOOK = ("kind", "host")

MEMBERS = Family("kminion_kafka_consumer_group_members", "gauge", _GROUP, "Members of the group.")
LAG_OF_PARTITION = Family(
    "kminion_kafka_consumer_group_topic_partition_lag", "gauge", _PARTITION, "Records behind in a partition."
)
LAG_OF_TOPIC = Family(
    "kminion_kafka_consumer_group_topic_lag",
    "gauge",
    ("group_id", "topic_name"),
    "Records behind in a topic.",
)
LAG_OF_GROUP = Family(
    "burrow_kafka_consumer_lag_total", "gauge", _BURROW_GROUP, "Records behind in all topics."
)
STATUS = Family(
    "burrow_kafka_consumer_status",
    "gauge",
    _BURROW_GROUP,
    "1: the group keeps up; 2: it is too slow; 3: it does not.",
)
BURROW_LAG = Family(
    "burrow_kafka_consumer_partition_lag", "gauge", _BURROW_PARTITION, "Records behind in a partition."
)
OFFSET = Family("burrow_kafka_consumer_current_offset", "gauge", _BURROW_PARTITION, "The committed offset.")
LAG_SECONDS = Family(
    "kohort_observe_group_topic_partition_lag_seconds", "gauge", _PARTITION, "Time behind in a partition."
)
PARTITIONS = Family(
    "kohort_observe_group_partitions",
    "gauge",
    ("group_id", "verdict"),
    "Partitions of the group by how it gets on in them: ok, warn, stop, stall, rewind, or unknown.",
)
GENERATION = Family(
    "kohort_observe_group_generation_total", "counter", _GROUP, "The group's generation, or group epoch."
)
GROUPS = Family("kohort_observe_groups", "gauge", (), "Groups that the observer knows.")
RECORDS = Family(
    "kohort_observe_records_total", "counter", (), "Records of `__consumer_offsets` that were read."
)
UNDECODED = Family("kohort_observe_records_undecoded_total", "counter", (), "Records of an unknown format.")
BEHIND = Family("kohort_observe_records_behind", "gauge", (), "Records of `__consumer_offsets` not read yet.")
CALLS = Family(
    "kohort_observe_calls_total", "counter", (), "Requests to the cluster, besides reading records."
)
FETCHES = Family(
    "kohort_observe_fetches_total", "counter", (), "Requests that read records of `__consumer_offsets`."
)
CAUGHT_UP = Family("kohort_observe_caught_up", "gauge", (), "1 once all records are read.")
READS_RECORDS = Family(
    "kohort_observe_reads_records", "gauge", (), "0 where `__consumer_offsets` may not be read."
)
PROBLEMS = Family(
    "kohort_observe_problems", "gauge", (), "What does not work now, such as reading or asking."
)
LOOKED = Family(
    "kohort_observe_last_look_timestamp_seconds",
    "gauge",
    (),
    "When the cluster has last answered, since 1970.",
)
WEBHOOK_SENT = Family(
    "kohort_observe_webhook_sent_total", "counter", _WEBHOOK, "Alerts that an endpoint took."
)
WEBHOOK_FAILED = Family(
    "kohort_observe_webhook_failed_total",
    "counter",
    _WEBHOOK,
    "Alerts that were given up, or dropped while many waited.",
)

_HERE = list(globals().values())
FAMILIES = tuple(each for each in _HERE if isinstance(each, Family))
"""Every family, in the order in which it is shown."""
