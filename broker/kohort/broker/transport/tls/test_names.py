"""Subjects as Java writes them, and Kafka's mapping rules."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kohort.broker.transport.tls.names import mapper_of, subject_of

DUKE = "CN=Duke,OU=JavaSoft,O=Sun Microsystems"


def certificate(*names: x509.RelativeDistinguishedName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]),
        x509.Name(names),
        key.public_key(),
        7,
        now,
        now + datetime.timedelta(days=1),
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def name(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in pairs])


def test_a_subject_is_written_from_its_end() -> None:
    subject = certificate(
        name((NameOID.COUNTRY_NAME, "DE")),
        name((NameOID.ORGANIZATION_NAME, "Kitchen, Inc")),
        name((NameOID.COMMON_NAME, " #1 Käse ")),
    )
    assert subject_of(subject) == "CN=\\ #1 Käse\\ ,O=Kitchen\\, Inc,C=DE"


def test_an_attribute_without_a_keyword_is_written_as_its_bytes() -> None:
    subject = certificate(
        name((NameOID.DOMAIN_COMPONENT, "org")),
        name((NameOID.EMAIL_ADDRESS, "a@b")),
        name((NameOID.COMMON_NAME, "x")),
    )
    assert subject_of(subject) == "CN=x,1.2.840.113549.1.9.1=#1603614062,DC=org"


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_certificate_that_is_cut_off_has_no_subject(cut: int) -> None:
    whole = certificate(name((NameOID.COMMON_NAME, "x")))
    with pytest.raises(ValueError, match="certificate"):
        subject_of(whole[:cut])


@pytest.mark.parametrize(
    "rules, expected",
    [
        ("", DUKE),
        ("DEFAULT", DUKE),
        ("RULE:^CN=(.*?),OU=JavaSoft.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L", "duke@javasoft"),
        ("RULE:^CN=(\\w+),.*$/$1/U, DEFAULT", "DUKE"),
        ("RULE:^OU=.*$/nobody/,DEFAULT", DUKE),
    ],
)
def test_the_first_rule_that_matches_names_the_client(rules: str, expected: str) -> None:
    assert mapper_of(rules)(DUKE) == expected


def test_a_subject_that_no_rule_matches_has_no_name() -> None:
    with pytest.raises(ValueError, match="no rule"):
        mapper_of("RULE:^OU=.*$/x/")(DUKE)


@pytest.mark.parametrize("rules", ["RULE:a/b", "DEFAULT,RULE:", "RULE:(/x/", "RULE:a/$1/", "default"])
def test_a_rule_that_is_none_is_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        mapper_of(rules)
