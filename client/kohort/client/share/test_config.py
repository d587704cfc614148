from collections.abc import Mapping

import pytest

from kohort.client.errors import ConfigurationError
from kohort.client.share.config import share_consumer_config


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "give a group_id"),
        ({"group_id": "g", "share_acknowledgement_mode": "maybe"}, "give 'implicit' or 'explicit'"),
        ({"group_id": "g", "share_acquire_mode": "all"}, "give 'batch_optimized' or 'record_limit'"),
        ({"group_id": "g", "value_deserializer": "int"}, "give a function"),
        ({"group_id": "g", "auto_offset_reset": "earliest"}, "a Consumer has it, but not a ShareConsumer"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_one(options: Mapping[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        share_consumer_config(options)
    assert words in str(caught.value)


def test_the_modes_are_as_kafka_has_them() -> None:
    plain = share_consumer_config({"group_id": "g"})
    assert (plain.is_implicit, plain.acquire_mode) == (True, 0)
    other = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit"}
    strict = share_consumer_config({"group_id": "g", **other})
    assert (strict.is_implicit, strict.acquire_mode) == (False, 1)
