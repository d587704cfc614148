"""Scripts for groups of newer kinds on kohort, against what Apache Kafka 4.3.1 has answered to them.

Its answers are kept in `recorded/`; `make differential` has them said anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.differential.recordings import KINDS, Kind, Played, kohort, play_all, recorded
from tests.differential.share_allowed import allowed
from tests.differential.told import story


def play(kind: Kind, folder: Path, seeds: int | None = None, *settings: str) -> list[Played]:
    """Return how the scripts ended on a kohort of their own."""
    theirs = recorded(kind)
    chosen = sorted(theirs)[:seeds]
    with kohort(folder, *settings) as address:
        return trio.run(play_all, kind, address, theirs, chosen, allowed)


@pytest.fixture(params=KINDS.values(), ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


def test_scripts_are_answered_as_apache_kafka_has_answered_them(kind: Kind, tmp_path: Path) -> None:
    played = play(kind, tmp_path)
    different = [each for each in played if each.told.differences]
    assert not different, f"{len(different)} differ\n" + "\n".join(
        story(kind.name, each.seed, each.told) for each in different[:5]
    )
    assert len(played) >= kind.scripts
    assert sum(each.told.answers for each in played) > 20 * kind.scripts, "the scripts hardly asked anything"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("consumer-groups", "group.consumer.assignors=uniform"),
        ("share-groups", "group.share.heartbeat.interval.ms=7000"),
        ("share-groups-on-transactions", "group.share.heartbeat.interval.ms=7000"),
        ("streams-groups", "group.streams.num.standby.replicas=1"),
    ],
)
def test_a_broker_with_different_answers_is_detected(name: str, setting: str, tmp_path: Path) -> None:
    played = play(KINDS[name], tmp_path, 12, setting)
    assert any(each.told.differences for each in played)
