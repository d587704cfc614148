"""A trial per test: its own broker, its own innocent client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.attacks.trial import SETTINGS, StartTrial, Trial, scratch
from tests.interop.broker_process import BrokerProcess


@pytest.fixture
def trial(record_property: Callable[[str, object], None]) -> Iterator[StartTrial]:
    """Return a function that begins the trial of a broker with these settings beside the usual ones."""
    brokers: list[BrokerProcess] = []
    with scratch() as place:

        def begin(*settings: str) -> Trial:
            folder = place / str(len(brokers))
            folder.mkdir()
            brokers.append(BrokerProcess(folder, *SETTINGS, *settings))
            return Trial(brokers[-1], record_property)

        yield begin
        for broker in brokers:
            broker.kill()
