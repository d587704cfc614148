"""Records read for share groups: step by step, and the same whatever the steps are."""

import random
from pathlib import Path

import pytest

from kohort.broker.handlers.share import share_reading
from kohort.broker.handlers.share.test_support import ACCEPT, Member, prepared, produce, running
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import header


@pytest.mark.parametrize("step_bytes", [1, 200, 4_096, share_reading.READ_BYTES_MAX])
@pytest.mark.parametrize("mode", [0, share_reading.STRICT])
async def test_members_get_the_same_records_for_any_read_size(
    step_bytes: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_reading, "STEP_BYTES", step_bytes)
    monkeypatch.setattr(share_reading, "STEP_GROWS", 2)
    chance = random.Random(7)
    values = [f"{number}-" + "x" * chance.choice((0, 10, 3_000)) for number in range(60)]
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        left = list(values)
        while left:
            count = chance.randint(1, 7)
            await produce(client, *left[:count])
            del left[:count]
        member = await Member.join(broker, "one")
        got: list[str] = []
        while len(got) < len(values):
            limit = chance.randint(1, 20)
            found = await member.fetch(
                max_records=limit, share_acquire_mode=mode, max_bytes=chance.choice((100, 5_000, 1 << 20))
            )
            assert found
            if mode == share_reading.STRICT:
                assert len(found) <= limit
            got += [each.value for each in found]
            types = [ACCEPT] * len(found)
            first, last = found[0].offset, found[-1].offset
            assert await member.acknowledge((first, last, types)) is ErrorCode.NONE
        assert got == values


async def test_acquiring_one_record_does_not_read_a_megabyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0

    def counted(data: bytes, position: int = 0) -> header.BatchHeader:
        nonlocal looked_at
        looked_at += 1
        return header.read_header(data, position)

    monkeypatch.setattr(share_reading, "read_header", counted)
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        for number in range(100):
            await produce(client, str(number))
        member = await Member.join(broker, "one")
        assert [each.value for each in await member.fetch(max_records=1, share_acquire_mode=1)] == ["0"]
    assert looked_at <= 2
