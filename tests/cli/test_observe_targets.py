"""Which clusters the options of `kohort observe` name."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kohort.cli.observe_targets import targets


def test_each_cluster_has_its_brokers_and_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "prod.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.plain.username=u\nsasl.plain.password=p\n"
    )
    prod, test = targets("ignored", ("prod=a:1,b:2", "test=c:3"), (f"prod={file}",))
    assert (prod.name, prod.asking["bootstrap_servers"]) == ("prod", ["a:1", "b:2"])
    assert (prod.reading["security_protocol"], prod.asking["sasl_plain_username"]) == ("SASL_PLAINTEXT", "u")
    assert (test.name, "security_protocol" in test.reading) == ("test", False)
    assert test.reading["exclude_internal_topics"] is False


@pytest.mark.parametrize(
    ("clusters", "configs", "words"),
    [
        (("prod",), (), "NAME=VALUE"),
        (("a/b=c:1",), (), "a name has letters"),
        (("api=c:1",), (), "a name has letters"),
        (("a=c:1", "a=d:1"), (), "the same name"),
        (("a=c:x",), (), "--cluster a"),
        (("a=c:1",), ("b=file",), "no --cluster of that name"),
        (("a=c:1",), ("a=/nowhere/at/all",), "/nowhere/at/all"),
        ((), ("a=file",), "for clusters of --cluster"),
    ],
)
def test_what_names_no_cluster_is_refused(
    clusters: tuple[str, ...], configs: tuple[str, ...], words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        targets("ignored", clusters, configs)
