"""TLS for connections, from Kafka's settings: PEM files or PEM in the settings themselves."""

import re
import ssl
import tempfile
from pathlib import Path

from kohort.client.config import ClientConfig
from kohort.client.errors import ConfigurationError

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*(.*?)\s*-----END \1-----", re.DOTALL)
_PEM_LINE = 64
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def make_context(config: ClientConfig) -> ssl.SSLContext | None:
    """Return what connections shake hands by, None where they are to be in the clear. Reads files.

    Raises: ConfigurationError.
    """
    if not config.security_protocol.endswith("SSL"):
        return None
    for store, kind in (("keystore", config.ssl_keystore_type), ("truststore", config.ssl_truststore_type)):
        if kind != "PEM":
            raise ConfigurationError(
                f"ssl_{store}_type is {kind!r}: only PEM is read here; openssl pkcs12 -in FILE -out store.pem"
                " converts a PKCS12 store, and keytool -importkeystore makes one of a JKS store"
            )
    is_named = config.ssl_truststore_location or config.ssl_truststore_certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_named else ssl.create_default_context()
    _choose_versions(context, config.ssl_enabled_protocols)
    algorithm = config.ssl_endpoint_identification_algorithm
    if algorithm not in ("https", ""):
        raise ConfigurationError(
            f"ssl_endpoint_identification_algorithm is {algorithm!r}: give 'https', or '' to check no names"
        )
    context.check_hostname = algorithm == "https"
    _trust(context, config)
    _prove(context, config)
    return context


def _choose_versions(context: ssl.SSLContext, given: str | list[str]) -> None:
    names = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    if not names or any(each not in _VERSIONS for each in names):
        raise ConfigurationError(f"ssl_enabled_protocols is {given!r}: give TLSv1.2, TLSv1.3 or both")
    versions = [_VERSIONS[each] for each in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    """Trust only the named certificates; without names those of the system."""
    text = config.ssl_truststore_certificates
    if config.ssl_truststore_location:
        text = _read(config.ssl_truststore_location, "ssl_truststore_location")
    if text is None:
        return
    certificates = [each for each in _PEM.finditer(text) if each[1] == "CERTIFICATE"]
    if not certificates:
        raise ConfigurationError("the truststore has no certificate in PEM (-----BEGIN CERTIFICATE-----)")
    try:
        context.load_verify_locations(cadata="".join(map(_pem, certificates)))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"the truststore's certificates cannot be read: {error}") from None


def _prove(context: ssl.SSLContext, config: ClientConfig) -> None:
    """Have a certificate to show, if there is one."""
    chain, key = config.ssl_keystore_certificate_chain, config.ssl_keystore_key
    if config.ssl_keystore_location:
        text, place = (
            _read(config.ssl_keystore_location, "ssl_keystore_location"),
            config.ssl_keystore_location,
        )
    elif chain and key:
        text, place = f"{key}\n{chain}", "ssl_keystore_certificate_chain"
    elif chain or key:
        raise ConfigurationError("ssl_keystore_certificate_chain and ssl_keystore_key: give both")
    else:
        return
    password = config.ssl_key_password or ""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # OpenSSL takes keys from files alone.
        file.write("".join(map(_pem, _PEM.finditer(text))))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except ssl.SSLError as error:
            reason = (error.reason or "is ssl_key_password right?").replace("_", " ").lower()
            raise ConfigurationError(f"{place}: no key with its certificates in PEM: {reason}") from None


def _read(path: str, setting: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{setting} is {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{setting} is {path!r}: this is no PEM file") from None


def _pem(block: "re.Match[str]") -> str:
    """Return a block as OpenSSL reads it: a properties file may have drawn its lines together."""
    kind, content = block[1], block[2]
    if ":" not in content:
        content = re.sub(r"\s+", "", content)
        content = "\n".join(content[at : at + _PEM_LINE] for at in range(0, len(content), _PEM_LINE))
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


def handshake_failure(error: ssl.SSLError) -> str:
    """Return in words why the two did not come together."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    reason = error.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") or isinstance(error, ssl.SSLEOFError):
        return "it does not seem to speak TLS; is its listener PLAINTEXT?"
    return reason.replace("_", " ").lower() or str(error)
