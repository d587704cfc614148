"""What listeners and permissions go by: TLS, SASL, the authorizer.

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
    """TLS, SASL, and who may do what."""

    # -- TLS ------------------------------------------------------------------------------------------

    ssl_keystore_type: str = setting(
        STRING,
        "PEM",
        "The form of the broker's key and certificates; JKS and PKCS12 have to be converted.",
        kafka_default="JKS",
    )
    ssl_keystore_location: str | None = setting(
        STRING, None, "A PEM file with the broker's private key and its certificates, its own first."
    )
    ssl_keystore_password: str | None = setting(
        PASSWORD, None, "PEM files have none: ssl.key.password is the key's own."
    )
    ssl_keystore_certificate_chain: str | None = setting(
        PASSWORD, None, "The broker's certificates themselves, in PEM, instead of ssl.keystore.location."
    )
    ssl_keystore_key: str | None = setting(
        PASSWORD, None, "The broker's private key itself, in PEM, instead of ssl.keystore.location."
    )
    ssl_key_password: str | None = setting(PASSWORD, None, "What the broker's private key is encrypted with.")
    ssl_truststore_type: str = setting(
        STRING,
        "PEM",
        "The form of the certificates that clients are trusted by; others than PEM have to be converted.",
        kafka_default="JKS",
    )
    ssl_truststore_location: str | None = setting(
        STRING, None, "A PEM file with the certificates of those who sign the clients' certificates."
    )
    ssl_truststore_password: str | None = setting(PASSWORD, None, "PEM files have none.")
    ssl_truststore_certificates: str | None = setting(
        PASSWORD, None, "Those certificates themselves, in PEM, instead of ssl.truststore.location."
    )
    kohort_ssl_crl_location: str | None = setting(
        STRING,
        None,
        "A PEM file with the lists of revoked certificates (CRL) of all who sign clients' and brokers' "
        "certificates: who shows a revoked one does not come in, nor does who is signed by one without a "
        "list, or with a list that is out of date. Not in Kafka.",
    )
    ssl_client_auth: str = setting(
        STRING,
        "none",
        "Whether clients must show a certificate, may, or are not asked.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
    )
    ssl_principal_mapping_rules: str = setting(
        STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes its name, the first rule that matches: "
        "RULE:PATTERN/REPLACEMENT/[LU],...,DEFAULT. No rule that matches, no connection.",
    )
    kohort_ssl_reload_interval_ms: int = setting(
        LONG,
        10_000,
        "How often the files of certificates are looked at; new ones hold for new connections. Not in Kafka.",
        at_least(100),
    )

    # -- SASL -----------------------------------------------------------------------------------------

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST,
        (),
        "By which mechanisms clients of SASL_PLAINTEXT and SASL_SSL listeners may say who they are; "
        "listener.name.NAME.sasl.enabled.mechanisms says it of one listener.",
        kafka_default="GSSAPI",
    )
    sasl_jaas_config: str | None = setting(
        PASSWORD,
        None,
        'The users of PLAIN, as Kafka writes them: ...PlainLoginModule required user_NAME="PASSWORD"; '
        "for one listener it is listener.name.NAME.plain.sasl.jaas.config.",
    )
    sasl_server_max_receive_size: int = setting(
        INT,
        65536,
        "The largest request of a client that has not said who it is.",
        kafka_default="524288",
    )
    connection_failed_authentication_delay_ms: int = setting(
        INT,
        100,
        "After how long a client is told that it is not who it says, and its connection closed.",
        at_least(0),
    )
    kohort_lockout_max_ms: int = setting(
        LONG,
        60_000,
        "How long a user waits at most, from an address, once more than 5 wrong passwords of it came from "
        "there, and all users from an address once more than 50 wrong passwords or secrets did. 0: nobody "
        "waits. Not in Kafka.",
        at_least(0),
    )
    connections_max_reauth_ms: int = setting(
        LONG,
        0,
        "For how long a client is taken for who it has said it is; it may say so again, or its connection is "
        "closed at its next request. 0 sets no end.",
    )
    inter_broker_listener_name: str | None = setting(
        STRING, None, "The listener, by its name, by which brokers of a cluster reach each other."
    )
    security_inter_broker_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "Without inter.broker.listener.name: what that listener speaks; the first that does is it.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        STRING,
        None,
        "By which mechanism brokers say to each other who they are, as the username and password of that "
        "listener's jaas.config.",
        kafka_default="GSSAPI",
    )
    ssl_endpoint_identification_algorithm: str = setting(
        STRING,
        "https",
        "Whether another broker's certificate has to bear the name or address by which it is reached: https, "
        "or nothing.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        STRING,
        None,
        "Where the keys are by which tokens of OAUTHBEARER are checked: the https:// or file:// URL of a "
        "JSON Web Key Set.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        LONG,
        3_600_000,
        "How often those keys are read again, but for tokens that name an unknown one.",
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        STRING, None, "Who has to have issued a token: its claim iss."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        LIST, (), "For whom a token has to be: one of them has to be in its claim aud."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = setting(
        BOOLEAN, False, "Whether tokens of any issuer are taken where none is expected."
    )
    sasl_oauthbearer_allow_unverified_audience: bool = setting(
        BOOLEAN, False, "Whether tokens for anybody are taken where no audience is expected."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        STRING, "sub", "The claim of a token that is its user's name."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        INT, 30, "How far the clock of who issues tokens may be from this one."
    )
    kohort_listener_settings: str | None = setting(
        PASSWORD,
        None,
        "What listener.name.NAME... settings say, which are given under their own names. Not in Kafka.",
    )

    # -- who may do what ------------------------------------------------------------------------------

    kohort_audit_log_file: str | None = setting(
        STRING,
        None,
        "A file that says in lines of JSON who did what to which resource, and whether it was allowed. "
        "Not in Kafka.",
    )
    kohort_audit_log_max_bytes: int = setting(
        LONG, 104_857_600, "How large that file gets; then a new one begins. Not in Kafka.", at_least(4096)
    )
    kohort_audit_log_files_max: int = setting(
        INT, 10, "How many old ones of these files are kept: FILE.1 is the newest. Not in Kafka.", at_least(0)
    )
    authorizer_class_name: str = setting(
        STRING,
        "",
        "The name of Kafka's authorizer, if access control lists are to hold; without it everybody may do "
        "everything.",
        Validator(
            "non-null string",
            lambda value: None if value in ("", STANDARD_AUTHORIZER) else f"it must be {STANDARD_AUTHORIZER}",
        ),
    )
    super_users: str = setting(
        STRING,
        "",
        "Who may do everything, whatever the access control lists say: User:NAME;User:NAME.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        BOOLEAN,
        False,
        "Whether everybody may do everything with what no entry of the access control lists is about.",
    )
