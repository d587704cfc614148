"""Apache Kafka's own Java clients, with their default settings."""

from __future__ import annotations

import pytest

from tests.interop.kafka_tools import MissingTool, java_command, run_program


@pytest.fixture(scope="module")
def printed(bootstrap: str) -> dict[str, str]:
    """What the Java program saw, by the names under which it prints it."""
    try:
        command = java_command("clients", "Clients", bootstrap)
    except MissingTool as missing:
        pytest.skip(str(missing))
    output = run_program(command)
    assert output.status == 0, output.out + output.err
    return dict(line.split("=", 1) for line in output.lines)


def test_java_produces_with_every_compression(printed: dict[str, str]) -> None:
    offsets = [printed[f"last offset {name}"] for name in ("none", "gzip", "snappy", "lz4", "zstd")]
    assert offsets == ["19", "39", "59", "79", "99"]


def test_two_java_consumers_share_a_group_and_take_over(printed: dict[str, str]) -> None:
    assert (printed["alone"], printed["shared"], printed["after leave"]) == ("4", "2+2", "4")
    assert printed["records"] == "400", "none was read twice, for they were committed before the second came"
    assert (printed["state"], printed["members"]) == ("Stable", "2")


def test_java_commits_seeks_and_looks_up_offsets(printed: dict[str, str]) -> None:
    assert printed["committed"] == "{" + ", ".join(f"java-flights-{each}=100" for each in range(4)) + "}"
    assert printed["read again after seek"] == "5"
    assert (printed["by time"], printed["end"], printed["metadata"]) == ("0", "100", "a note")


def test_javas_admin_client_gets_the_expected_answers(printed: dict[str, str]) -> None:
    expected = {
        "partitions": "4",
        "grown": "6",
        "cluster nodes": "1",
        "cleanup.policy": "delete,compact",
        "earliest after delete": "10",
        "max timestamp offset is known": "true",
        "altered": "77",
        "offset deleted": "true",
        "groups": "1",
        "log folders": "1",
        "producers": "true",
        "topic deleted": "true",
    }
    assert {name: printed[name] for name in expected} == expected
