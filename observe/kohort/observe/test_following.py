import pytest

from kohort.client.config import ConsumerOptions
from kohort.observe.following import fetching


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_partition_fetch_bytes": 1 << 20},
        {"fetch_max_bytes": 1 << 20},
        {"max_partition_fetch_bytes": 1},
    ],
)
def test_one_busy_partition_alone_fills_a_fetch(options: ConsumerOptions) -> None:
    """A broker that never has `fetch_min_bytes` for an answer waits for `fetch_max_wait_ms` each time."""
    found = fetching(options)
    most = min(found["max_partition_fetch_bytes"], found["fetch_max_bytes"])
    assert 1 <= found["fetch_min_bytes"] <= max(most // 4, 1)
    assert {**found, **options} == found


def test_what_the_user_sets_comes_first() -> None:
    assert fetching({"fetch_min_bytes": 7, "max_partition_fetch_bytes": 5})["fetch_min_bytes"] == 7
