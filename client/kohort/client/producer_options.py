"""A producer's options, by its serializers: they decide the types of keys and values."""

from typing import Generic, Required, TypeVar

from kohort.client.config import ProducerOptions, Serializer

Connection = TypeVar("Connection")


class SharingOptions(ProducerOptions, Generic[Connection], total=False):
    """The settings, and the cluster connection that is shared."""

    cluster: Connection | None


class PlainOptions(SharingOptions[Connection], total=False):
    """Keys and values are bytes."""

    key_serializer: None
    value_serializer: None


class KeyOptions(SharingOptions[Connection], total=False):
    """A serializer makes the bytes of keys."""

    key_serializer: Required[Serializer]
    value_serializer: None


class ValueOptions(SharingOptions[Connection], total=False):
    """A serializer makes the bytes of values."""

    key_serializer: None
    value_serializer: Required[Serializer]


class KeyAndValueOptions(SharingOptions[Connection], total=False):
    """Serializers make the bytes of keys and of values."""

    key_serializer: Required[Serializer | None]
    value_serializer: Required[Serializer | None]
