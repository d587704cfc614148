"""Half of an answer is never all of it."""

import pytest

from kohort.broker.transport.request import Answer
from kohort.testing.torn_request import first_half


@pytest.mark.parametrize(
    ("answer", "half"),
    [
        ([b"12345678", b"90"], [b"12345"]),
        ([b"12", memoryview(b"345678")], [b"12", b"34"]),
        ([b"12"], [b"1"]),
        (b"1234567", [b"123"]),
        ([b"1"], []),
        ([], []),
    ],
)
def test_half_of_the_bytes_are_kept(answer: Answer, half: Answer) -> None:
    assert [bytes(each) for each in first_half(answer)] == half  # type: ignore[arg-type]  # No files.
