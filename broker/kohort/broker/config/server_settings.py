"""What the broker is, its cluster, its connections, and how much clients may do.

Source: org.apache.kafka.server.config.ServerConfigs, ReplicationConfigs, QuotaConfig,
org.apache.kafka.network.SocketServerConfigs.
"""

from kohort.broker.config.settings import BrokerSettings, setting
from kohort.broker.config.values import (
    BOOLEAN,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    at_least,
    one_of,
    zero_or_at_least,
)


class ServerSettings(BrokerSettings):
    """Who the broker is and whom it serves."""

    # -- who and where --------------------------------------------------------------------------------

    node_id: int = setting(
        INT, 1, "The number by which clients know this broker.", at_least(0), kafka_default="<required>"
    )
    broker_id: int = setting(INT, -1, "The old name of node.id; -1 leaves the choice to node.id.")
    broker_rack: str | None = setting(STRING, None, "The rack that this broker stands in, as clients see it.")

    # -- the cluster ----------------------------------------------------------------------------------

    kohort_cluster: str | None = setting(
        STRING,
        None,
        "The cluster that this broker belongs to, as etcd://HOST:PORT,HOST:PORT/NAME; without it the broker "
        "is alone. Not in Kafka.",
    )
    kohort_workers: int = setting(
        INT,
        1,
        "How many processes serve, each of them a broker of this host, behind one address: --workers. Not in "
        "Kafka.",
    )
    kohort_loop_stall_timeout_ms: int = setting(
        INT,
        10000,
        "How long the event loop may compute and serve nobody before the process ends, so that another takes "
        "over. Where it waits for the system, six times as long. 0 switches this off. Not in Kafka.",
        zero_or_at_least(3000),
    )
    kohort_etcd_user: str | None = setting(
        STRING, None, "The user that this broker is to etcd. Not in Kafka."
    )
    kohort_etcd_password_file: str | None = setting(
        STRING, None, "A file with the password of kohort.etcd.user. Not in Kafka."
    )
    kohort_etcd_ssl_ca_file: str | None = setting(
        STRING,
        None,
        "The certificates, in PEM, that etcd's is checked with; without it the system's. Not in Kafka.",
    )
    kohort_etcd_ssl_certificate_file: str | None = setting(
        STRING, None, "The certificate, in PEM, that this broker shows to etcd. Not in Kafka."
    )
    kohort_etcd_ssl_key_file: str | None = setting(
        STRING, None, "The key of that certificate; without it the certificate's file has it. Not in Kafka."
    )
    kohort_etcd_request_timeout_ms: int = setting(
        INT,
        5000,
        "How long etcd, all endpoints together, may take for an answer. Not in Kafka.",
        at_least(100),
    )
    kohort_drained: bool = setting(
        BOOLEAN,
        False,
        "Whether this broker of a cluster leads only what no other can; it goes on to hold replicas. "
        "Not in Kafka.",
        read_only=False,
    )
    broker_session_timeout_ms: int = setting(
        INT,
        9000,
        "How long a broker of a cluster is taken for alive without a sign of it; it stops by itself before.",
    )
    broker_heartbeat_interval_ms: int = setting(
        INT, 2000, "How often a broker of a cluster gives a sign of life."
    )
    controlled_shutdown_enable: bool = setting(
        BOOLEAN, True, "Whether others lead what a broker leads before it stops."
    )
    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the controller lets preferred leaders lead again where another leads more than a tenth of "
        "what a broker should.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        LONG, 300, "How often the controller looks whether preferred leaders lead.", at_least(1)
    )
    leader_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second a leader sends of the replicas that a topic names as throttled.",
        at_least(0),
        read_only=False,
    )
    follower_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second a follower takes of the replicas that a topic names as throttled.",
        at_least(0),
        read_only=False,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second move between the data folders of a broker; kohort has one folder.",
        at_least(0),
        read_only=False,
    )

    # -- connections and requests ---------------------------------------------------------------------

    socket_request_max_bytes: int = setting(
        INT, 104857600, "The largest request; a larger one closes its connection.", at_least(1)
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        -1,
        "The kernel's send buffer of a connection; -1 leaves it to the kernel.",
        kafka_default="102400",
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        -1,
        "The kernel's receive buffer of a connection; -1 leaves it to the kernel.",
        kafka_default="102400",
    )
    socket_listen_backlog_size: int = setting(
        INT, 1024, "How many connections may wait to be accepted.", at_least(1), kafka_default="50"
    )
    connections_max_idle_ms: int = setting(
        LONG, 600000, "A connection that asks nothing for so long is closed; a negative value keeps it open."
    )
    max_connections: int = setting(
        INT, INT_MAX, "How many connections may be open at once.", at_least(0), read_only=False
    )
    max_connections_per_ip: int = setting(
        INT,
        INT_MAX,
        "How many connections one address may have open at once.",
        at_least(0),
        read_only=False,
    )
    queued_max_requests: int = setting(
        INT, 500, "How many requests may be in flight before the broker reads no more of them.", at_least(1)
    )
    queued_max_request_bytes: int = setting(
        LONG,
        83886080,
        "How many bytes all connections may hold together: requests until they are answered, and answers "
        "until they are taken. Each may hold what is still free; -1 sets no limit.",
        kafka_default="-1",
    )
    request_timeout_ms: int = setting(
        INT, 30000, "How long an answer may wait for something else before it is given up."
    )
    fetch_max_bytes: int = setting(
        INT, 57671680, "The most bytes that one fetch answers with.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        INT, 1000, "How many incremental fetch sessions are kept.", at_least(0)
    )
    max_request_partition_size_limit: int = setting(
        INT, 2000, "The most partitions that one DescribeTopicPartitions answers with.", at_least(1)
    )

    kohort_http_messages_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the live page at the HTTP address may show records of topics. Where there is an authorizer "
        "it does only if this says so and kohort.http.credentials.file is set. Not in Kafka.",
    )
    kohort_http_writes_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether the live page may delete groups, reset offsets of empty ones and remove members: "
        "--http-allow-writes. Not in Kafka.",
    )
    kohort_http_security_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "What the HTTP address speaks: PLAINTEXT, or SSL by the certificates of ssl.keystore.*. "
        "Not in Kafka.",
        one_of("PLAINTEXT", "SSL"),
    )
    kohort_http_credentials_file: str | None = setting(
        STRING,
        None,
        "A file with NAME:SECRET, one a line: who shows none of these by Basic or as a Bearer token sees "
        "no page. Not in Kafka.",
    )
    kohort_http_allowed_hosts: tuple[str, ...] = setting(
        LIST,
        (),
        "Further names by which HTTP clients may call this broker, such as a service's; * allows all. "
        "Not in Kafka.",
    )

    # -- how much clients may do ----------------------------------------------------------------------

    quota_window_num: int = setting(INT, 11, "Over how many windows rates of clients are taken.", at_least(1))
    quota_window_size_seconds: int = setting(INT, 1, "How long such a window is.", at_least(1))
    controller_quota_window_num: int = setting(
        INT,
        11,
        "In how many windows as many partitions come in as may be made or deleted at once.",
        at_least(1),
    )
    controller_quota_window_size_seconds: int = setting(INT, 1, "How long such a window is.", at_least(1))
