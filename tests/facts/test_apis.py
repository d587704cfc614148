"""Every API against Apache Kafka 4.4's own: its versions where kohort has it, a reason where it has not.

The table beside this file was read from Kafka's message schemas.
"""

from pathlib import Path

import pytest

from kohort.broker.handlers.apis import MODULES
from kohort.protocol.registry import APIS
from kohort.protocol.versions import Versions

TABLE = Path(__file__).with_name("kafka-4.4-api-versions.tsv")
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]]
KAFKA = {int(key): rest for key, *rest in ROWS}
OF_BROKERS = {key for key, (_, _, _, listeners, _) in KAFKA.items() if "broker" in listeners}

NO_TOKENS = "there are no delegation tokens"
NO_RAFT = "there is no quorum and no feature level: metadata is a file"
NO_DESCRIPTIONS = "nobody keeps descriptions of topologies: Kafka does with a plugin alone"
ABSENT = {
    34: "there is one log directory",
    38: NO_TOKENS,
    39: NO_TOKENS,
    40: NO_TOKENS,
    41: NO_TOKENS,
    55: NO_RAFT,
    57: NO_RAFT,
    80: NO_RAFT,
    81: NO_RAFT,
    93: NO_DESCRIPTIONS,
    94: NO_RAFT,
}


def test_every_api_of_kafkas_brokers_is_answered_or_has_a_reason_not_to_be() -> None:
    assert set(MODULES) | set(ABSENT) == OF_BROKERS
    assert not set(MODULES) & set(ABSENT)


def test_every_api_that_is_declared_is_answered() -> None:
    assert set(MODULES) == set(APIS)


@pytest.mark.parametrize("key", sorted(MODULES), ids=lambda key: APIS[key].name)
def test_names_and_versions_are_kafkas(key: int) -> None:
    name, versions, flexible, _, is_unstable = KAFKA[key]
    valid = Versions.parse(versions)
    if is_unstable == "True":
        valid = Versions(valid.lowest, valid.highest - 1)
    api = APIS[key]
    assert (api.name, api.versions) == (name, valid)
    assert str(api.request.declaration().flexible) == flexible
