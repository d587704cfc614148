"""What brokers are told of their fetch sessions when a consumer is closed."""

from collections.abc import Mapping

import anyio
import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.connection import Connection
from kohort.client.connections import FETCH, MAIN
from kohort.client.errors import NetworkError
from kohort.client.fetch_session import FetchSession
from kohort.client.fetcher import Fetcher
from kohort.client.positions import Positions
from kohort.protocol.messages.fetch import FetchRequest, FetchResponse

FINAL_EPOCH = -1


class Peer:
    """A connection to a broker; `answers` is what becomes of a request."""

    def __init__(self, answers: str = "") -> None:
        self.answers = answers
        self.heard: list[FetchRequest] = []

    async def request(self, request: FetchRequest, answer: type[FetchResponse], **options: object) -> object:
        del answer, options
        self.heard.append(request)
        if self.answers == "never":
            await anyio.sleep_forever()
        if self.answers == "breaks":
            raise NetworkError("it is gone")
        return None


class OpenConnections(Cluster):
    """A cluster of which these connections are open."""

    def __init__(self, peers: Mapping[tuple[int, str], Peer]) -> None:
        super().__init__(consumer_config({}))
        self._peers = peers

    def open_connection(self, node_id: int, channel: str = MAIN) -> Connection | None:
        return self._peers.get((node_id, channel))  # type: ignore[return-value]  # It is asked alone.

    async def connection(self, node_id: int, channel: str = MAIN) -> Connection:
        raise AssertionError("nobody connects to say good-bye")


def a_session(session_id: int) -> FetchSession:
    session = FetchSession()
    session.session_id, session.epoch = session_id, 5
    return session


def end(
    peers: Mapping[tuple[int, str], Peer], sessions: Mapping[int, int], within_s: float = 5, **options: int
) -> None:
    """End these sessions, by broker. Raises: TimeoutError."""
    fetcher = Fetcher(OpenConnections(peers), consumer_config(options), Positions(), lambda: None)
    fetcher._sessions = {node_id: a_session(each) for node_id, each in sessions.items()}

    async def main() -> None:
        with anyio.fail_after(within_s):
            await fetcher.end()

    anyio.run(main)


def test_a_fetch_waits_for_no_more_than_it_may_bring() -> None:
    peer = Peer()
    end({(1, MAIN): peer}, {1: 7}, fetch_min_bytes=10_000, prefetch_max_bytes=1_000)
    (request,) = peer.heard
    assert (request.min_bytes, request.max_bytes) == (1_000, 1_000)


def test_every_broker_is_sent_the_end_of_its_session_without_partitions() -> None:
    first, second = Peer(), Peer()
    end({(1, MAIN): first, (2, MAIN): second}, {1: 77, 2: 78})
    (said,) = first.heard
    assert (said.session_id, said.session_epoch, said.max_wait_ms) == (77, FINAL_EPOCH, 0)
    assert (said.topics, said.forgotten_topics_data) == ((), ())
    assert [each.session_id for each in second.heard] == [78]


def test_the_end_is_sent_on_a_connection_without_a_waiting_fetch_if_possible() -> None:
    main, fetching = Peer(), Peer()
    end({(1, MAIN): main, (1, FETCH): fetching}, {1: 77})
    assert (len(main.heard), len(fetching.heard)) == (1, 0)
    end({(1, FETCH): fetching}, {1: 77})
    assert len(fetching.heard) == 1


def test_a_broker_without_a_session_is_sent_nothing() -> None:
    peer = Peer()
    end({(1, MAIN): peer}, {1: 0})
    assert peer.heard == []


def test_unconnected_brokers_are_skipped_and_a_broken_connection_is_no_error() -> None:
    there = Peer()
    end({(2, MAIN): Peer("breaks"), (3, MAIN): there}, {1: 77, 2: 78, 3: 79})
    assert len(there.heard) == 1


def test_a_silent_broker_delays_the_end_only_up_to_the_timeout() -> None:
    silent, there = Peer("never"), Peer()
    with pytest.raises(TimeoutError):
        end({(1, MAIN): silent, (2, MAIN): there}, {1: 77, 2: 78}, within_s=0.05)
    assert (len(silent.heard), len(there.heard)) == (1, 1)
