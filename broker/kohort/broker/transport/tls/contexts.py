"""Creates OpenSSL contexts from certificates and keys in PEM, in files or in settings.

Source: Kafka's DefaultSslEngineFactory.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.transport.tls.names import Mapper, mapper_of

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*(.*?)\s*-----END \1-----", re.DOTALL)
_PEM_LINE = 64
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CONVERT = {
    "JKS": "keytool -importkeystore -srckeystore FILE -destkeystore store.p12 -deststoretype PKCS12, then "
    "openssl pkcs12 -in store.p12 -out store.pem",
    "PKCS12": "openssl pkcs12 -in FILE -out store.pem",
}


def make_context(config: BrokerConfig, *, asks_clients: bool = True) -> ssl.SSLContext:
    """Return the TLS context of a listener. Reads files. Raises: ConfigError.

    As in Kafka, clients that authenticate with SASL are not asked for certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = config.ssl_enabled_protocols
    if not names or any(each not in _VERSIONS for each in names):
        raise ConfigError(f"ssl.enabled.protocols={','.join(names)}: give TLSv1.2, TLSv1.3 or both")
    versions = [_VERSIONS[each] for each in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_key(context, config)
    _load_trust(context, config)
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth if asks_clients else "none"]
    return context


def make_peer_context(config: BrokerConfig) -> ssl.SSLContext:
    """Return the TLS context for connections to other brokers. Reads files. Raises: ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.ssl_truststore_location is None and config.ssl_truststore_certificates is None:
        raise ConfigError("TLS between brokers needs trusted certificates: give ssl.truststore.location")
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == "https"
    _load_key(context, config)
    _load_trust(context, config)
    return context


def make_mapper(config: BrokerConfig) -> Mapper:
    """Return the function that maps subjects to names. Raises: ConfigError."""
    try:
        return mapper_of(config.ssl_principal_mapping_rules)
    except ValueError as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {error}") from None


def check(config: BrokerConfig) -> None:
    """Check the TLS settings. Reads files. Raises: ConfigError."""
    make_mapper(config)
    make_context(config)


def sources(config: BrokerConfig) -> tuple[tuple[str, int, int], ...]:
    """Return a fingerprint of the files, which changes when they change. Blocks."""
    found = []
    for name in (
        config.ssl_keystore_location,
        config.ssl_truststore_location,
        config.kohort_ssl_crl_location,
    ):
        if name:
            try:
                status = Path(name).stat()  # Follows links, because Kubernetes changes secrets by links.
            except OSError:
                continue  # The file is being replaced.
            found.append((name, status.st_mtime_ns, status.st_ino))
    return tuple(found)


def _load_key(context: ssl.SSLContext, config: BrokerConfig) -> None:
    _require_pem("ssl.keystore", config.ssl_keystore_type, config.ssl_keystore_password)
    chain, key = config.ssl_keystore_certificate_chain, config.ssl_keystore_key
    if config.ssl_keystore_location:
        if chain or key:
            raise ConfigError(
                "ssl.keystore.location: with it neither ssl.keystore.certificate.chain nor ssl.keystore.key"
            )
        place = f"ssl.keystore.location={config.ssl_keystore_location}"
        text = _read(config.ssl_keystore_location, "ssl.keystore.location")
    elif chain and key:
        place, text = "ssl.keystore.certificate.chain", f"{key}\n{chain}"
    else:
        raise ConfigError(
            "a listener speaks SSL: give ssl.keystore.location, a PEM file with key and certificates, "
            "or ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    blocks = _blocks(text, place)
    keys = [each for each in blocks if each[0].endswith("PRIVATE KEY")]
    if len(keys) != 1 or len(keys) == len(blocks):
        raise ConfigError(
            f"{place}: it must have one private key, and its certificates; it has {_block_kinds(blocks)}"
        )
    if config.ssl_key_password is None and (keys[0][0].startswith("ENCRYPTED") or "ENCRYPTED" in keys[0][1]):
        raise ConfigError(f"{place}: the key is encrypted: give ssl.key.password")
    try:
        with _as_file("".join(map(_pem, (*keys, *(each for each in blocks if each not in keys))))) as path:
            context.load_cert_chain(path, password=config.ssl_key_password or "")
    except ssl.SSLError as error:
        raise ConfigError(f"{place}: {_refusal(error)}") from None


def _load_trust(context: ssl.SSLContext, config: BrokerConfig) -> None:
    _require_pem("ssl.truststore", config.ssl_truststore_type, config.ssl_truststore_password)
    text, place = config.ssl_truststore_certificates, "ssl.truststore.certificates"
    if config.ssl_truststore_location:
        if text:
            raise ConfigError("ssl.truststore.location: with it no ssl.truststore.certificates")
        place = f"ssl.truststore.location={config.ssl_truststore_location}"
        text = _read(config.ssl_truststore_location, "ssl.truststore.location")
    if not text:
        if config.ssl_client_auth != "none":
            raise ConfigError(
                f"ssl.client.auth={config.ssl_client_auth} needs trusted certificates: "
                "give ssl.truststore.location"
            )
        return
    blocks = [each for each in _blocks(text, place) if each[0] == "CERTIFICATE"]
    try:
        context.load_verify_locations(cadata="".join(map(_pem, blocks)))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{place}: it must have certificates in PEM: {error}") from None
    _load_revoked(context, config)


def _load_revoked(context: ssl.SSLContext, config: BrokerConfig) -> None:
    """Load the certificate revocation lists, if there are any."""
    if config.kohort_ssl_crl_location is None:
        return
    place = f"kohort.ssl.crl.location={config.kohort_ssl_crl_location}"
    text = _read(config.kohort_ssl_crl_location, "kohort.ssl.crl.location")
    lists = [each for each in _blocks(text, place) if each[0] == "X509 CRL"]
    if not lists:
        raise ConfigError(f"{place}: there is no list of revoked certificates (-----BEGIN X509 CRL-----)")
    try:
        with _as_file("".join(map(_pem, lists))) as path:
            context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{place}: {_words_of(error)}") from None
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _require_pem(store: str, kind: str, password: str | None) -> None:
    if kind != "PEM":
        how = _CONVERT.get(kind, _CONVERT["JKS"])
        raise ConfigError(
            f"{store}.type={kind}: only PEM is read here. Convert it: {how}; then {store}.type=PEM"
        )
    if password is not None:
        raise ConfigError(f"{store}.password: a PEM file has none; a key's own is ssl.key.password")


def _read(path: str, setting: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{setting}={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{setting}={path}: this is no PEM file. {_CONVERT['PKCS12']} makes one") from None


def _blocks(text: str, place: str) -> list[tuple[str, str]]:
    """Return the type and the content of each PEM block. Raises: ConfigError if there is none."""
    found = [(each[1], each[2]) for each in _PEM.finditer(text)]
    if not found:
        raise ConfigError(f"{place}: there is nothing in PEM (-----BEGIN CERTIFICATE-----)")
    return found


def _pem(block: tuple[str, str]) -> str:
    """Return a block in OpenSSL's format. In a properties file its lines may be joined."""
    kind, content = block
    if ":" not in content:  # An old encrypted key has headers on their own lines.
        content = re.sub(r"\s+", "", content)
        content = "\n".join(content[at : at + _PEM_LINE] for at in range(0, len(content), _PEM_LINE))
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


def _block_kinds(blocks: list[tuple[str, str]]) -> str:
    return ", ".join(kind for kind, _ in blocks)


def _refusal(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the first certificate is not that of the key"
    if error.reason in (None, "BAD_DECRYPT", "BAD_PASSWORD_READ", "PEM_LIB"):
        return "the key cannot be read: is ssl.key.password right?"
    return _words_of(error)


def _words_of(error: ssl.SSLError) -> str:
    return str(error.reason).replace("_", " ").lower()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield the path of a private file with the text, because OpenSSL reads keys only from files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, name = tempfile.mkstemp()
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield name  # Windows opens no file twice that goes when it is closed.
    finally:
        os.unlink(name)
