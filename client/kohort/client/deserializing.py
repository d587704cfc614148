"""Keys and values as the user's deserializers make them, in the thread that reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from kohort.client.config import Deserializer
from kohort.client.errors import DeserializationError
from kohort.client.values import AnyRecord, ConsumerRecord

if TYPE_CHECKING:
    from kohort.client.config import ConsumerConfig
    from kohort.client.share.config import ShareConsumerConfig


class Deserializing:
    """The deserializers of one consumer."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value

    @classmethod
    def of(cls, config: "ConsumerConfig | ShareConsumerConfig") -> "Deserializing | None":
        """Return the given ones, None without any."""
        key = cast("Deserializer | None", config.key_deserializer)  # The settings were checked.
        value = cast("Deserializer | None", config.value_deserializer)
        return None if key is None and value is None else cls(key, value)

    def apply(self, records: Sequence[ConsumerRecord]) -> list[AnyRecord]:
        """Return the records up to the first that can't be read; that one's error is raised if it is first.

        Raises: DeserializationError.
        """
        made: list[AnyRecord] = []
        for each in records:
            try:
                made.append(self._made(each))
            except DeserializationError:
                if not made:
                    raise
                break
        return made

    def _made(self, raw: ConsumerRecord) -> AnyRecord:
        return ConsumerRecord(
            raw.topic,
            raw.partition,
            raw.offset,
            raw.timestamp_ms,
            _called("key", self._key, raw.key, raw),
            _called("value", self._value, raw.value, raw),
            raw.headers,
            raw.leader_epoch,
            raw.timestamp_type,
        )


def _called(what: str, deserializer: Deserializer | None, data: bytes | None, raw: ConsumerRecord) -> object:
    if deserializer is None or data is None:
        return data
    try:
        return deserializer(data)
    except Exception as error:
        raise DeserializationError(what, raw, error) from error
