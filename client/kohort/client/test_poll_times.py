"""Why a member is out is said with figures, and with what would have kept it in."""

import pytest

from kohort.client.membership import POLL_TIMEOUT_REASON, Departure
from kohort.client.poll_times import HeldBatch, PollTimes
from kohort.client.values import ConsumerRecord


def records(count: int, topic: str = "t", partitions: int = 1, first: int = 100) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(topic, number % partitions, first + number // partitions, 0, None, b"")
        for number in range(count)
    ]


def explained(poll_times: PollTimes, departure: Departure, now_ms: int, most: int = 500) -> str:
    return poll_times.explain(departure, now_ms, group_id="g", limit_ms=300_000, session_ms=45_000, most=most)


def test_a_batch_is_described_by_its_size_and_each_partitions_offsets() -> None:
    assert (
        str(HeldBatch.of(records(4, partitions=2))) == "4 records (t-0 from 100 to 101, t-1 from 100 to 101)"
    )
    assert str(HeldBatch.of(records(1))) == "1 record (t-0 from 100 to 100)"
    assert str(HeldBatch.of([])) == "no records"
    assert str(HeldBatch.of(records(10, partitions=10))).endswith(
        "t-7 from 100 to 100, and 2 more partitions)"
    )


@pytest.mark.requirement("R13", "R27")
def test_slow_processing_is_reported_with_its_duration_and_the_setting_to_change() -> None:
    poll_times = PollTimes()
    poll_times.poll_began(1_000)
    poll_times.listener_ran(120)
    poll_times.poll_began(1_200)  # The same poll goes on after the listener.
    poll_times.poll_ended(1_400, records(500))
    departure = Departure(POLL_TIMEOUT_REASON, at_ms=301_400, silent_ms=900, by_poll_interval=True)
    assert explained(poll_times, departure, 401_400) == (
        "this consumer left group 'g' 100.0 s ago: consumer poll timeout has expired."
        " Its code held 500 records (t-0 from 100 to 599) for 400.0 s, 800 ms a record;"
        " the poll before took 400 ms, 120 ms of it in listeners."
        " Set max_poll_interval_ms (300000) to 600000 or more, or max_poll_records (500) to 250 or fewer"
    )


def test_a_silent_static_member_is_explained() -> None:
    departure = Departure(
        POLL_TIMEOUT_REASON, at_ms=300_000, silent_ms=0, by_poll_interval=True, silently=True
    )
    assert explained(PollTimes(), departure, 301_000).startswith(
        "this consumer stopped its heartbeats to group 'g' 1.0 s ago: consumer poll timeout has expired."
    )


def test_fewer_records_are_not_advised_for_a_poll_with_one() -> None:
    poll_times = PollTimes()
    poll_times.poll_ended(0, records(1)[0])
    departure = Departure(POLL_TIMEOUT_REASON, at_ms=300_000, silent_ms=0, by_poll_interval=True)
    told = explained(poll_times, departure, 310_000)
    assert "held 1 record (t-0 from 100 to 100) for 310.0 s;" in told
    assert told.endswith("Set max_poll_interval_ms (300000) to 465000 or more")


@pytest.mark.requirement("R27")
def test_an_expired_session_is_reported_with_its_likely_causes() -> None:
    poll_times = PollTimes()
    poll_times.poll_ended(0, records(3))
    silent = Departure("the coordinator answered UNKNOWN_MEMBER_ID", at_ms=60_000, silent_ms=58_000)
    told = explained(poll_times, silent, 61_000)
    assert "thrown out of group 'g' 1.0 s ago: the coordinator answered UNKNOWN_MEMBER_ID;" in told
    assert "No heartbeat got through for longer than session_timeout_ms (45000)" in told
    heard = Departure("the coordinator answered UNKNOWN_MEMBER_ID", at_ms=60_000, silent_ms=2_000)
    assert "No heartbeat" not in explained(poll_times, heard, 61_000)


def test_a_slow_listener_is_reported_while_it_runs() -> None:
    poll_times = PollTimes()
    poll_times.poll_ended(0, records(2))
    poll_times.poll_began(1_000)
    poll_times.listener_ran(400_000)
    departure = Departure(POLL_TIMEOUT_REASON, at_ms=301_000, silent_ms=0, by_poll_interval=True)
    told = explained(poll_times, departure, 402_000)
    assert "held 2 records (t-0 from 100 to 101) for 1.0 s" in told
    assert "it has been in a poll for 401.0 s, 400.0 s of it in listeners" in told
    assert "to 602000 or more" in told
