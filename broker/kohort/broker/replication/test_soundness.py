"""What speaks for a data folder, and what against it."""

import pytest

from kohort.broker.replication import Found, has_all

KILLED = Found(was_stopped=False, is_last_life=True, is_same_boot=True, is_synced=True, is_short=False)
LAX = KILLED._replace(is_synced=False)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (KILLED, True),
        (KILLED._replace(is_same_boot=False), True),  # All of it was synced.
        (LAX, True),  # The machine still has what the process wrote.
        (LAX._replace(is_same_boot=False), False),
        (LAX._replace(is_same_boot=False, was_stopped=True), True),
        (KILLED._replace(is_short=True), False),
        (KILLED._replace(was_stopped=True, is_short=True), False),
        (KILLED._replace(is_last_life=False), False),
        (KILLED._replace(was_stopped=True, is_last_life=False), False),  # A backup was stopped cleanly, too.
    ],
)
def test_a_folder_has_all_where_something_proves_it(found: Found, expected: bool) -> None:
    assert has_all(found) is expected
