"""The settings of security: TLS, SASL, the audit log, and the authorizer.

Source: org.apache.kafka.common.config.SslConfigs, SaslConfigs, BrokerSecurityConfigs.
"""

from kohort.broker.config.settings import BrokerSettings, setting
from kohort.broker.config.values import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Validator,
    at_least,
    one_of,
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuritySettings(BrokerSettings):
    """TLS, SASL, the audit log, and the authorizer."""

    # -- TLS ------------------------------------------------------------------------------------------

    ssl_keystore_type: str = setting(
        STRING,
        "PEM",
        "The format of the broker's key and certificates. Convert JKS and PKCS12 to PEM.",
        kafka_default="JKS",
    )
    ssl_keystore_location: str | None = setting(
        STRING,
        None,
        "A PEM file with the broker's private key and its certificate chain, its own certificate first.",
    )
    ssl_keystore_password: str | None = setting(
        PASSWORD, None, "Not used: PEM files have no password. ssl.key.password is the password of the key."
    )
    ssl_keystore_certificate_chain: str | None = setting(
        PASSWORD, None, "The broker's certificate chain as PEM text, instead of ssl.keystore.location."
    )
    ssl_keystore_key: str | None = setting(
        PASSWORD, None, "The broker's private key as PEM text, instead of ssl.keystore.location."
    )
    ssl_key_password: str | None = setting(PASSWORD, None, "The password of the broker's private key.")
    ssl_truststore_type: str = setting(
        STRING,
        "PEM",
        "The format of the trusted certificates. Convert other formats to PEM.",
        kafka_default="JKS",
    )
    ssl_truststore_location: str | None = setting(
        STRING, None, "A PEM file with the certificates of the authorities that sign clients' certificates."
    )
    ssl_truststore_password: str | None = setting(PASSWORD, None, "Not used: PEM files have no password.")
    ssl_truststore_certificates: str | None = setting(
        PASSWORD, None, "These certificates as PEM text, instead of ssl.truststore.location."
    )
    kohort_ssl_crl_location: str | None = setting(
        STRING,
        None,
        "A PEM file with the certificate revocation lists (CRL) of all authorities that sign clients' and "
        "brokers' certificates. A revoked certificate is refused. A certificate is also refused if its "
        "authority has no list, or an expired one. Not in Kafka.",
    )
    ssl_client_auth: str = setting(
        STRING,
        "none",
        "Whether a client certificate is required, requested, or not requested.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The enabled versions of TLS.",
    )
    ssl_principal_mapping_rules: str = setting(
        STRING,
        "DEFAULT",
        "Rules that map the subject of a client's certificate to its user name: "
        "RULE:PATTERN/REPLACEMENT/[LU],...,DEFAULT. The first matching rule counts. Without a matching rule "
        "the connection is refused.",
    )
    kohort_ssl_reload_interval_ms: int = setting(
        LONG,
        10_000,
        "How often certificate files are checked for changes. New connections use changed files. Not in "
        "Kafka.",
        at_least(100),
    )

    # -- SASL -----------------------------------------------------------------------------------------

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST,
        (),
        "The enabled SASL mechanisms of SASL_PLAINTEXT and SASL_SSL listeners. "
        "listener.name.NAME.sasl.enabled.mechanisms is for one listener.",
        kafka_default="GSSAPI",
    )
    sasl_jaas_config: str | None = setting(
        PASSWORD,
        None,
        'The users of PLAIN in Kafka\'s format: ...PlainLoginModule required user_NAME="PASSWORD"; '
        "listener.name.NAME.plain.sasl.jaas.config is for one listener.",
    )
    sasl_server_max_receive_size: int = setting(
        INT,
        65536,
        "The largest request of a client that is not authenticated yet.",
        kafka_default="524288",
    )
    connection_failed_authentication_delay_ms: int = setting(
        INT,
        100,
        "How long the broker waits before it answers a failed authentication and closes the connection.",
        at_least(0),
    )
    kohort_lockout_max_ms: int = setting(
        LONG,
        60_000,
        "The longest lockout after failed logins: of a user at an address after 5 wrong passwords, and of "
        "all users at an address after 50 wrong passwords or secrets. 0 disables lockouts. Not in Kafka.",
        at_least(0),
    )
    connections_max_reauth_ms: int = setting(
        LONG,
        0,
        "How long an authentication is valid. A client must authenticate again before that; otherwise its "
        "connection is closed at its next request. 0 means no limit.",
    )
    inter_broker_listener_name: str | None = setting(
        STRING, None, "The name of the listener for connections between brokers of a cluster."
    )
    security_inter_broker_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "Without inter.broker.listener.name, brokers use the first listener with this security protocol.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        STRING,
        None,
        "The SASL mechanism between brokers. They use the username and password of that listener's "
        "jaas.config.",
        kafka_default="GSSAPI",
    )
    ssl_endpoint_identification_algorithm: str = setting(
        STRING,
        "https",
        "Whether another broker's certificate must have the host name or address of the connection: https, "
        "or empty.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        STRING,
        None,
        "The https:// or file:// URL of the JSON Web Key Set that verifies OAUTHBEARER tokens.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        LONG,
        3_600_000,
        "How often the keys are read again. A token with an unknown key id also triggers a read.",
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        STRING, None, "The required issuer of a token: its claim iss."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        LIST, (), "The accepted audiences of a token: its claim aud must have one of them."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = setting(
        BOOLEAN, False, "Whether tokens of any issuer are accepted if no issuer is configured."
    )
    sasl_oauthbearer_allow_unverified_audience: bool = setting(
        BOOLEAN, False, "Whether tokens for any audience are accepted if no audience is configured."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        STRING, "sub", "The claim of a token that has the user name."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        INT, 30, "The largest accepted difference between the issuer's clock and the broker's."
    )
    kohort_listener_settings: str | None = setting(
        PASSWORD,
        None,
        "The listener.name.NAME... settings, which are set under their own names. Not in Kafka.",
    )

    # -- audit log and authorizer ---------------------------------------------------------------------

    kohort_audit_log_file: str | None = setting(
        STRING,
        None,
        "The audit log: a file of JSON lines with user, operation, resource, and whether it was allowed. "
        "Not in Kafka.",
    )
    kohort_audit_log_max_bytes: int = setting(
        LONG,
        104_857_600,
        "The size of the audit log file above which a new file begins. Not in Kafka.",
        at_least(4096),
    )
    kohort_audit_log_files_max: int = setting(
        INT,
        10,
        "The number of old audit log files that are kept. FILE.1 is the newest. Not in Kafka.",
        at_least(0),
    )
    authorizer_class_name: str = setting(
        STRING,
        "",
        "The class name of Kafka's authorizer, to enforce access control lists. Without it everybody may do "
        "everything.",
        Validator(
            "non-null string",
            lambda value: None if value in ("", STANDARD_AUTHORIZER) else f"it must be {STANDARD_AUTHORIZER}",
        ),
    )
    super_users: str = setting(
        STRING,
        "",
        "Users who may do everything, regardless of access control lists: User:NAME;User:NAME.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        BOOLEAN,
        False,
        "Whether everybody may use resources that have no access control entries.",
    )
