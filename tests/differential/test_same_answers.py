"""The same scripts on kohort and on Apache Kafka 4.3.1: every answer, and how the group stands after it.

Three dozen scripts here; `make differential` plays several hundred.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import trio

from tests.differential import duel, run
from tests.differential.apache_kafka import MissingTool
from tests.differential.duel import Duel, Outcome, Verdict
from tests.differential.report import seen, story, summary
from tests.differential.run import apache_kafka, kohort, play_all
from tests.differential.side import Broker, Rendered, Side
from tests.differential.wire import Connection

SCRIPTS = 36


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kohort(tmp_path_factory.mktemp("kohort")) as broker:
        yield broker


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        with apache_kafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except MissingTool as missing:
        pytest.skip(str(missing))


def test_scripts_are_answered_as_apache_kafka_answers_them(ours: Broker, theirs: Broker) -> None:
    outcomes = trio.run(play_all, range(SCRIPTS), ours, theirs)
    found = seen(outcomes)
    assert not found.different, "\n".join(story(each) for each in outcomes if each.differences)
    assert found.answers > 20 * SCRIPTS, "the scripts hardly asked anything"
    assert len(found.undecided) <= SCRIPTS // 20, summary(found, 0)


def test_two_brokers_of_the_same_kind_answer_alike(ours: Broker, tmp_path: Path) -> None:
    with kohort(tmp_path) as another:
        outcomes = trio.run(play_all, range(5), ours, another)
    assert not seen(outcomes).different, "\n".join(story(each) for each in outcomes if each.differences)


@pytest.mark.parametrize("setting", ["group.max.size=1", "offset.metadata.max.bytes=3"])
def test_a_broker_with_different_answers_is_detected(ours: Broker, tmp_path: Path, setting: str) -> None:
    with kohort(tmp_path, setting) as another:
        outcomes = trio.run(play_all, range(5), ours, another)
    assert seen(outcomes).different


class Slow(Side):
    """A side that needs so long for each answer, and says that a group stands like this."""

    def __init__(self, seconds: float, state: str) -> None:
        super().__init__(Nobody(), "g", cast(Connection, None))
        self._seconds = seconds
        self._group = {"groups": [{"group_state": state, "members": []}]}

    async def send(self, *_request: object) -> None:
        """Send nothing."""

    async def settled(self, *_request: object, **_of: object) -> dict[int, Rendered]:
        """Return no answers."""
        await trio.sleep(self._seconds)
        return {}

    async def describe(self) -> Rendered:
        """Return how the group stands."""
        return self._group


@pytest.mark.parametrize(("seconds", "verdict"), [(0.0, Verdict.DIFFERENT), (0.5, Verdict.TOO_SLOW)])
async def test_a_difference_that_a_timer_may_have_made_is_undecided(
    seconds: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duel, "DESCRIBE_S", 0.0)
    found = await Duel(0, "g", Slow(0.0, "Empty"), Slow(seconds, "Dead")).play()
    assert found.verdict is verdict
    assert bool(found.differences) == (verdict is Verdict.DIFFERENT)


class Nobody(Broker):
    """A broker that nobody asks anything."""

    def __init__(self) -> None:
        super().__init__("nobody", ("127.0.0.1", 1))

    async def prepare(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("in_the_end", [Verdict.SAME, Verdict.DIFFERENT, Verdict.TOO_SLOW])
def test_an_undecided_script_is_played_again_alone(
    in_the_end: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: set[int] = set()
    played: list[int] = []

    async def play(seed: int, _ours: Broker, _theirs: Broker, _run: str) -> Outcome:
        under_way.add(seed)
        played.append(seed)
        await trio.sleep(0)
        is_alone = under_way == {seed}
        await trio.sleep(0)
        under_way.remove(seed)
        return Outcome(seed, in_the_end if is_alone else Verdict.TOO_SLOW if seed == 2 else Verdict.SAME)

    monkeypatch.setattr(run, "play", play)
    outcomes = trio.run(play_all, range(4), Nobody(), Nobody())
    assert sorted(played) == [0, 1, 2, 2, 3]
    assert [each.verdict for each in outcomes] == [Verdict.SAME, Verdict.SAME, in_the_end, Verdict.SAME]
    found = seen(outcomes)
    assert (found.alone, found.attempts) == ((2,), 5)
    assert "played alone, since they were undecided beside others: 2" in summary(found, 0)
