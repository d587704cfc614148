"""No request makes a broker compare its ids with each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from uuid import UUID

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.ids import SAME_HASH_MAX, UNCHECKED_IDS_MAX, share_hashes
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import ZERO_UUID, Field
from tests.messages import message_of

PERIOD = 2**61 - 1
COUNT = 1_000
MADE = tuple(UUID(int=77 + number * PERIOD) for number in range(COUNT))
DRAWN = tuple(UUID(int=Random(5).getrandbits(128) ^ number) for number in range(COUNT))


@dataclass(frozen=True)
class Case:
    """An API whose request has an array of what has an id."""

    api: Api
    array: Field
    name: str

    def request(self, ids: tuple[UUID, ...]) -> bytes:
        assert self.array.struct is not None
        items = tuple(message_of(self.array.struct, **{self.name: each}) for each in ids)
        return message_of(self.api.request, **{self.array.name: items}).encode(self.api.versions.highest)


def cases() -> Iterator[Case]:
    for api in APIS.values():
        version = api.versions.highest
        for array in api.request.declaration().fields:
            if array.wire.name == "array" and array.struct is not None and version in array.versions:
                for each in array.struct.declaration().fields:
                    if each.wire.name == "uuid" and version in each.versions:
                        yield Case(api, array, each.name)


CASES = list(cases())


def test_many_requests_contain_ids() -> None:
    assert len(CASES) > 10
    assert {"Fetch", "Metadata", "OffsetCommit", "Produce", "ShareFetch", "ConsumerGroupHeartbeat"} <= {
        each.api.name for each in CASES
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.api.name}.{case.array.name}")
def test_ids_with_one_hash_are_refused(case: Case) -> None:
    with pytest.raises(WireError, match="same hash"):
        case.api.request.decode(case.request(MADE), case.api.versions.highest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.api.name}.{case.array.name}")
def test_random_repeated_and_zero_ids_are_accepted(case: Case) -> None:
    version = case.api.versions.highest
    for ids in (DRAWN, DRAWN[:3] * 100, (ZERO_UUID,) * COUNT, MADE[:UNCHECKED_IDS_MAX]):
        decoded = case.api.request.decode(case.request(ids), version)
        assert tuple(getattr(each, case.name) for each in getattr(decoded, case.array.name)) == ids


def test_ids_in_several_groups_count_together() -> None:
    groups = tuple(
        OffsetFetchRequestGroup(
            group_id=f"{number}", topics=(OffsetFetchRequestTopics(topic_id=each, partition_indexes=(0,)),)
        )
        for number, each in enumerate(MADE[:100])
    )
    with pytest.raises(WireError, match="same hash"):
        OffsetFetchRequest.decode(message_of(OffsetFetchRequest, groups=groups).encode(10), 10)


def test_a_few_ids_can_share_a_hash() -> None:
    assert not share_hashes(MADE[: SAME_HASH_MAX + 1])
    assert share_hashes(MADE[: SAME_HASH_MAX + 2])
    assert share_hashes(each for first in MADE[:2] for each in (first, *DRAWN, *MADE[:100]))
    assert not share_hashes(())
