"""Keys and certificates in PEM: what is taken, and in which words the rest is refused."""

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kohort.broker.config import ConfigError
from kohort.broker.config.load import load_config
from kohort.broker.transport.tls.contexts import make_context

AUTHORITY = trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost")
KEY = SERVER.private_key_pem.bytes().decode()
CHAIN = "".join(each.bytes().decode() for each in SERVER.cert_chain_pems)
TRUSTED = AUTHORITY.cert_pem.bytes().decode()


def context(**settings: str) -> ssl.SSLContext:
    return make_context(
        load_config(None, [(name.replace("_", "."), text) for name, text in settings.items()])
    )


def encrypted(password: bytes) -> str:
    key = load_pem_private_key(KEY.encode(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)).decode()


def test_key_and_certificates_are_read_from_a_file_in_any_order(tmp_path: Path) -> None:
    for text in (KEY + CHAIN, CHAIN + KEY):
        (tmp_path / "server.pem").write_text(f"RandomSet Attributes\n{text}")
        made = context(ssl_keystore_location=str(tmp_path / "server.pem"))
        assert made.verify_mode == ssl.CERT_NONE
        assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_certificates_can_be_given_in_settings_on_one_line() -> None:
    made = context(
        ssl_keystore_key=KEY.replace("\n", " "),
        ssl_keystore_certificate_chain=CHAIN.replace("\n", " "),
        ssl_truststore_certificates=TRUSTED,
        ssl_client_auth="required",
        ssl_enabled_protocols="TLSv1.3",
    )
    assert made.verify_mode == ssl.CERT_REQUIRED
    assert made.minimum_version == ssl.TLSVersion.TLSv1_3
    assert len(made.get_ca_certs()) == 1


def test_an_encrypted_key_needs_its_password() -> None:
    settings = {"ssl_keystore_key": encrypted(b"hush"), "ssl_keystore_certificate_chain": CHAIN}
    context(**settings, ssl_key_password="hush")
    with pytest.raises(ConfigError, match="the key is encrypted"):
        context(**settings)
    with pytest.raises(ConfigError, match=r"is ssl\.key\.password right\?") as refused:
        context(**settings, ssl_key_password="wrong-word")
    assert "wrong-word" not in str(refused.value)


@pytest.mark.parametrize(
    "settings, right",
    [
        ({}, "a listener speaks SSL: give ssl.keystore.location"),
        ({"ssl_keystore_type": "JKS"}, "only PEM is read here. Convert it: keytool -importkeystore"),
        ({"ssl_keystore_type": "PKCS12"}, "openssl pkcs12 -in FILE -out store.pem"),
        ({"ssl_keystore_location": "/nowhere/x.pem"}, "/nowhere/x.pem: No such file or directory"),
        ({"ssl_keystore_password": "x"}, "a PEM file has none; a key's own is ssl.key.password"),
        ({"ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": TRUSTED}, "is not that of the key"),
        ({"ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": "x"}, "one private key, and its"),
        ({"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "x"}, "there is nothing in PEM"),
        (
            {"ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": CHAIN, "ssl_client_auth": "required"},
            "needs trusted certificates: give ssl.truststore.location",
        ),
        (
            {"ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": CHAIN, "ssl_truststore_type": "JKS"},
            "ssl.truststore.type=JKS: only PEM is read here",
        ),
        (
            {"ssl_keystore_key": KEY, "ssl_keystore_certificate_chain": CHAIN, "ssl_enabled_protocols": ""},
            "ssl.enabled.protocols=: give TLSv1.2",
        ),
    ],
)  # fmt: skip
def test_an_unusable_certificate_is_reported_in_one_line(settings: dict[str, str], right: str) -> None:
    with pytest.raises(ConfigError) as refused:
        context(**settings)
    assert right in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "PRIVATE KEY-----" not in str(refused.value)


def test_a_binary_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ConfigError, match="openssl pkcs12 -in FILE"):
        context(ssl_keystore_location=str(tmp_path / "store"))
