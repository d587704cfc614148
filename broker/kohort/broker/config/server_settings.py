"""The settings of the broker itself, its cluster, its connections, and quotas.

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
    PASSWORD,
    STRING,
    at_least,
    one_of,
    registry_urls,
    zero_or_at_least,
)


class ServerSettings(BrokerSettings):
    """The broker, its cluster, its connections, and quotas."""

    # -- the broker -----------------------------------------------------------------------------------

    node_id: int = setting(INT, 1, "The id of this broker.", at_least(0), kafka_default="<required>")
    broker_id: int = setting(INT, -1, "The old name of node.id. -1 means that node.id is used.")
    broker_rack: str | None = setting(STRING, None, "The rack of this broker.")

    # -- the cluster ----------------------------------------------------------------------------------

    kohort_cluster: str | None = setting(
        STRING,
        None,
        "The cluster of this broker: etcd://HOST:PORT,HOST:PORT/NAME. Without it the broker is a single "
        "broker. Not in Kafka.",
    )
    kohort_workers: int = setting(
        INT,
        1,
        "The number of worker processes behind one address, each a broker of this host: --workers. Not in "
        "Kafka.",
    )
    kohort_loop_stall_timeout_ms: int = setting(
        INT,
        10000,
        "How long the event loop may be blocked by computation before the process ends, so that another "
        "broker takes over. The limit is six times as long while the loop waits for the system. 0 disables "
        "this. "
        "Not in Kafka.",
        zero_or_at_least(3000),
    )
    kohort_etcd_user: str | None = setting(STRING, None, "The etcd user of this broker. Not in Kafka.")
    kohort_etcd_password_file: str | None = setting(
        STRING, None, "A file with the password of kohort.etcd.user. Not in Kafka."
    )
    kohort_etcd_ssl_ca_file: str | None = setting(
        STRING,
        None,
        "A PEM file with the CA certificates for etcd. The default is the system's certificates. Not in "
        "Kafka.",
    )
    kohort_etcd_ssl_certificate_file: str | None = setting(
        STRING, None, "A PEM file with this broker's client certificate for etcd. Not in Kafka."
    )
    kohort_etcd_ssl_key_file: str | None = setting(
        STRING,
        None,
        "A PEM file with the key of that certificate. The default is the certificate's file. Not in Kafka.",
    )
    kohort_etcd_request_timeout_ms: int = setting(
        INT,
        5000,
        "The timeout of a request to etcd, over all endpoints together. Not in Kafka.",
        at_least(100),
    )
    kohort_drained: bool = setting(
        BOOLEAN,
        False,
        "Whether this broker of a cluster leads only partitions that no other broker can lead. It keeps its "
        "replicas. Not in Kafka.",
        read_only=False,
    )
    broker_session_timeout_ms: int = setting(
        INT,
        9000,
        "The time without a heartbeat after which a broker of a cluster is fenced. The broker stops itself "
        "earlier.",
    )
    broker_heartbeat_interval_ms: int = setting(
        INT, 2000, "How often a broker of a cluster sends a heartbeat."
    )
    controlled_shutdown_enable: bool = setting(
        BOOLEAN, True, "Whether a broker moves its leaderships to other brokers before it stops."
    )
    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the controller elects preferred leaders again if other brokers lead more than a tenth of a "
        "broker's partitions.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        LONG, 300, "How often the controller checks the imbalance of leaders.", at_least(1)
    )
    leader_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "The bytes per second that a leader sends for throttled replicas.",
        at_least(0),
        read_only=False,
    )
    follower_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "The bytes per second that a follower fetches for throttled replicas.",
        at_least(0),
        read_only=False,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        LONG,
        LONG_MAX,
        "Not used: kohort has one data folder.",
        at_least(0),
        read_only=False,
    )

    # -- connections and requests ---------------------------------------------------------------------

    socket_request_max_bytes: int = setting(
        INT, 104857600, "The largest request in bytes. A larger request closes its connection.", at_least(1)
    )
    telemetry_max_bytes: int = setting(
        INT, 1048576, "The largest push of a client's metrics, compressed and uncompressed.", at_least(1)
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        -1,
        "The send buffer (SO_SNDBUF) of a connection. -1 is the kernel's default.",
        kafka_default="102400",
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        -1,
        "The receive buffer (SO_RCVBUF) of a connection. -1 is the kernel's default.",
        kafka_default="102400",
    )
    socket_listen_backlog_size: int = setting(
        INT, 1024, "How many connections may wait to be accepted.", at_least(1), kafka_default="50"
    )
    connections_max_idle_ms: int = setting(
        LONG, 600000, "An idle connection is closed after this time. A negative value keeps it open."
    )
    max_connections: int = setting(
        INT, INT_MAX, "The largest number of connections.", at_least(0), read_only=False
    )
    max_connections_per_ip: int = setting(
        INT,
        INT_MAX,
        "The largest number of connections from one IP address.",
        at_least(0),
        read_only=False,
    )
    queued_max_requests: int = setting(
        INT,
        500,
        "The number of requests in flight above which the broker stops reading requests.",
        at_least(1),
    )
    queued_max_request_bytes: int = setting(
        LONG,
        83886080,
        "The most bytes that all connections together may hold: requests until they are answered, and "
        "responses until clients read them. A connection may use all that is free. -1 means no limit.",
        kafka_default="-1",
    )
    request_timeout_ms: int = setting(INT, 30000, "How long a response may wait before the request fails.")
    fetch_max_bytes: int = setting(INT, 57671680, "The most bytes in one Fetch response.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = setting(
        INT, 1000, "The largest number of incremental fetch sessions.", at_least(0)
    )
    max_request_partition_size_limit: int = setting(
        INT, 2000, "The most partitions in one DescribeTopicPartitions response.", at_least(1)
    )

    kohort_http_messages_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the live page at the HTTP address may show records of topics. With an authorizer it shows "
        "them only if this is set explicitly and kohort.http.credentials.file is set. Not in Kafka.",
    )
    kohort_schema_registry_url: str | None = setting(
        PASSWORD,
        None,
        "The URLs of a schema registry, with commas between them, whose schemas decode the records on the "
        "live page. A URL may contain a user and a password. Not in Kafka.",
        registry_urls(),
    )
    kohort_http_writes_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether the live page may delete groups, reset offsets of empty ones and remove members: "
        "--http-allow-writes. Not in Kafka.",
    )
    kohort_mcp_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether agents may ask at /mcp of the HTTP address what the live page shows of groups: --mcp. "
        "Needs the extra mcp. Not in Kafka.",
    )
    kohort_http_security_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "The security protocol of the HTTP address: PLAINTEXT, or SSL with the certificates of "
        "ssl.keystore.*. Not in Kafka.",
        one_of("PLAINTEXT", "SSL"),
    )
    kohort_http_credentials_file: str | None = setting(
        STRING,
        None,
        "A file with NAME:SECRET lines. HTTP clients must send one of them as Basic credentials or as a "
        "Bearer token. Not in Kafka.",
    )
    kohort_http_allowed_hosts: tuple[str, ...] = setting(
        LIST,
        (),
        "Further host names in URLs of HTTP clients, such as a service's name. * allows all. Not in Kafka.",
    )

    # -- quotas ---------------------------------------------------------------------------------------

    quota_window_num: int = setting(
        INT, 11, "The number of windows for the rates of client quotas.", at_least(1)
    )
    quota_window_size_seconds: int = setting(INT, 1, "The size of such a window, in seconds.", at_least(1))
    controller_quota_window_num: int = setting(
        INT,
        11,
        "The number of windows for the rates of controller mutation quotas.",
        at_least(1),
    )
    controller_quota_window_size_seconds: int = setting(
        INT, 1, "The size of such a window, in seconds.", at_least(1)
    )
