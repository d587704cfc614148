"""A short run of the wire fuzzer; `make fuzz` runs the long one."""

import math
import os
import random

import pytest

from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from tests.fuzz.wire import MEASURED_ONE_IN, Broken, Fuzzer

SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
SHORT_RUN_BYTES = 5_000_000  # Enough to come round every message and version.


def test_millions_of_ruined_bytes_are_refused_or_read() -> None:
    fuzzer = Fuzzer(SEED)
    fuzzer.run(SHORT_RUN_BYTES)
    assert fuzzer.refused > fuzzer.inputs / 2, f"seed {SEED}: the fuzzer hardly ruins anything"
    assert fuzzer.decoded > fuzzer.inputs / 100, f"seed {SEED}: the fuzzer ruins everything at the first byte"


def test_a_value_that_equals_nothing_is_no_disagreement() -> None:
    """A quota of NaN: both decoders read it, and no NaN equals another."""
    operation = AlterClientQuotasOperation(key="_", value=math.nan, remove=False)
    entry = AlterClientQuotasEntry(entity=(), ops=(operation,))
    data = AlterClientQuotasRequest(entries=(entry,), validate_only=False).encode(1)
    Fuzzer(7).compare(AlterClientQuotasRequest, 1, data)


def test_the_fuzzer_names_the_input_that_broke_a_decoder() -> None:
    def careless(data: bytes) -> int:
        return data[4]

    with pytest.raises(Broken, match=r"seed 7: careless raised IndexError.* on b'ab'"):
        Fuzzer(7).feed("careless", careless, b"ab")


def test_the_fuzzer_notices_memory_for_a_false_length() -> None:
    fuzzer = Fuzzer(7)
    fuzzer.inputs = MEASURED_ONE_IN - 1
    with pytest.raises(Broken, match=r"seed 7: greedy took \d+ bytes of memory"):
        fuzzer.feed("greedy", lambda data: bytes(1 << 24), b"ab")


def test_the_same_seed_feeds_the_same_bytes() -> None:
    first, second = Fuzzer(3), Fuzzer(3)
    first.run(50_000)
    second.run(50_000)
    assert (first.inputs, first.bytes, first.refused) == (second.inputs, second.bytes, second.refused)
