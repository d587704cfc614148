"""A short run of the broker's fuzzer (`make fuzz-broker` runs the long one), and proof that it can fail."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.registry import APIS, BY_NAME
from tests.attacks.trial import Guilty, Trial
from tests.fuzz import broker as fuzzing
from tests.fuzz.broker import Fuzzer, Talk, Unreadable, fuzz, read_log, send_again, write_log
from tests.fuzz.requests import Case, Known, Maker
from tests.interop.broker_process import BrokerProcess

SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
SHORT_RUN_S = 15.0
EVERY_VERSION = {
    (api.api_key, version)
    for api in APIS.values()
    for version in range(api.versions.lowest, api.versions.highest + 1)
}


def test_no_request_breaks_the_broker_or_another_client(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    facts: dict[str, object] = {}
    try:
        fuzz(tmp_path, SHORT_RUN_S, SEED, facts)
    except AssertionError as error:
        error.add_note(f"seed {SEED}; to see it again: python -m tests.fuzz.broker --replay {tmp_path}/sent")
        raise
    for name, value in facts.items():
        record_property(name, value)
    assert facts["answers"], f"seed {SEED}: the fuzzer ruins everything"


def test_every_api_and_version_is_sent() -> None:
    maker = Maker(Random(SEED), Known())
    cases = [maker.case(number) for number in range(len(EVERY_VERSION))]
    assert {(case.api.api_key, case.version) for case in cases} == EVERY_VERSION


def test_sound_cases_are_requests() -> None:
    maker = Maker(Random(SEED), Known())
    crowds: Counter[str] = Counter()
    for number, case in enumerate(map(maker.case, range(400))):
        if case.is_whole:
            frame = case.data[4:]
            assert int.from_bytes(case.data[:4], "big") == len(frame), case.title
            version = case.api.request_header_version(case.version)
            header = RequestHeader.decode(frame, version, exact=False)
            assert header.correlation_id == number, case.title
            try:
                case.api.request.decode(frame[len(header.encode(version)) :], case.version)
            except WireError as error:  # Crowded ones may have more than are read, and now and then another.
                if "elements in all" not in str(error):
                    raise
                crowds[case.title.split()[0]] += 1
    assert crowds.total() - crowds["crowded"] <= 4, crowds


def test_most_cases_are_invalid_requests() -> None:
    maker = Maker(Random(SEED), Known())
    kinds = [maker.case(number).title.split()[0] for number in range(400)]
    assert set(kinds) >= {"meant", "ruined", "long", "crowded", "deep"}
    assert kinds.count("meant") < 200


class Killing(Fuzzer):
    """A fuzzer that finds what ends the broker."""

    def _step(self) -> None:
        super()._step()
        if sum(self.counts.values()) == 30:
            os.kill(self._trial.broker.pid, signal.SIGKILL)


def test_a_broker_that_ends_is_noticed_and_its_requests_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzing, "Fuzzer", Killing)
    with pytest.raises(Guilty, match="the broker ended"):
        fuzz(tmp_path, 20.0, SEED, {})
    sent = read_log(tmp_path / "sent")
    assert len(sent) >= 30


def test_kept_requests_can_be_sent_again(tmp_path: Path) -> None:
    maker = Maker(Random(7), Known())
    cases = [maker.case(number) for number in range(40)]
    kept = [(number % 3, case.data, case.title) for number, case in enumerate(cases)]
    write_log(tmp_path / "sent", deque(kept))
    again = read_log(tmp_path / "sent")
    assert list(again) == kept
    write_log(tmp_path / "some", deque(each for each in again if each[2].startswith("meant")))
    send_again(tmp_path / "some")


def test_an_answer_that_cannot_be_read_is_noticed(tmp_path: Path) -> None:
    api = BY_NAME["JoinGroup"]
    case = Case(b"", "meant JoinGroup v5", api, 5, is_whole=True)
    fuzzer = Fuzzer(Trial(BrokerProcess(tmp_path), lambda _name, _value: None), SEED)
    talk = Talk(1, None)  # type: ignore[arg-type]  # Nothing is sent.
    joined = JoinGroupResponse(error_code=0, protocol_name="p", leader="", member_id="one", members=())
    sound = (1).to_bytes(4, "big") + joined.encode(5)
    talk.asked = {1: case}
    fuzzer._learn(talk, sound)
    talk.asked = {1: case}
    with pytest.raises(Unreadable, match="meant JoinGroup v5"):
        fuzzer._learn(talk, sound + b"\0")


def test_known_values_are_taken_from_answers() -> None:
    known = Known()
    known.learn(JoinGroupResponse(error_code=0, protocol_name="p", leader="", member_id="one", members=()))
    assert "one" in known.member_ids
    known.learn(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
