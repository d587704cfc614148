"""The settings of a cluster, read and checked; httpx is not imported for that."""

from dataclasses import dataclass
from pathlib import Path

from kohort.broker.config import BrokerConfig, ConfigError, ConfigSource
from kohort.broker.etcd.address import ClusterAddress, ClusterAddressError, Credentials, cluster_address

SESSION_TIMEOUT_MS_MIN = 1_000


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster, and how its etcd is reached."""

    address: ClusterAddress
    credentials: Credentials
    session_timeout_ms: int
    heartbeat_ms: int
    request_seconds: float


def cluster_options(config: BrokerConfig) -> ClusterOptions | None:
    """Return the cluster that the settings name, None for a broker alone. Raises: ConfigError."""
    if config.kohort_cluster is None:
        return None
    try:
        address = cluster_address(config.kohort_cluster)
    except ClusterAddressError as error:
        raise ConfigError(f"kohort.cluster: {error}") from None
    if not {"node.id", "broker.id"} & config.layer(ConfigSource.STATIC_BROKER).keys():
        raise ConfigError("a broker of a cluster needs a number of its own: give --node-id")
    if config.broker_session_timeout_ms < SESSION_TIMEOUT_MS_MIN or config.broker_heartbeat_interval_ms < 1:
        raise ConfigError(
            f"broker.session.timeout.ms must be at least {SESSION_TIMEOUT_MS_MIN}, as etcd counts in "
            "seconds, and broker.heartbeat.interval.ms above 0"
        )
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        raise ConfigError(
            f"broker.heartbeat.interval.ms={config.broker_heartbeat_interval_ms} must be at most half of "
            f"broker.session.timeout.ms={config.broker_session_timeout_ms}"
        )
    return ClusterOptions(
        address,
        _credentials(config, address),
        config.broker_session_timeout_ms,
        config.broker_heartbeat_interval_ms,
        config.kohort_etcd_request_timeout_ms / 1000,
    )


def _credentials(config: BrokerConfig, address: ClusterAddress) -> Credentials:
    """Return this broker's credentials for etcd. Raises: ConfigError."""
    ca_file = _path(config.kohort_etcd_ssl_ca_file)
    certificate_file = _path(config.kohort_etcd_ssl_certificate_file)
    key_file = _path(config.kohort_etcd_ssl_key_file)
    if (ca_file or certificate_file or key_file) and not address.is_encrypted:
        raise ConfigError("kohort.etcd.ssl settings need TLS: write etcds:// instead of etcd://")
    if key_file is not None and certificate_file is None:
        raise ConfigError("kohort.etcd.ssl.key.file needs kohort.etcd.ssl.certificate.file")
    password = ""
    if config.kohort_etcd_password_file is not None:
        if config.kohort_etcd_user is None:
            raise ConfigError("kohort.etcd.password.file needs kohort.etcd.user")
        password = _password(Path(config.kohort_etcd_password_file))
    return Credentials(config.kohort_etcd_user, password, ca_file, certificate_file, key_file)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _password(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"kohort.etcd.password.file: {file} can't be read: {error}") from None
