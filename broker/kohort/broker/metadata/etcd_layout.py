"""The keys of a cluster in etcd, and their values: JSON that a person can read with etcdctl.

/kohort/NAME/format                          1: a broker that knows only another number does not start
/kohort/NAME/cluster_id                      the id that clients see
/kohort/NAME/brokers/0000000003              a live broker, under its lease
/kohort/NAME/lives/0000000003                the last process registered as this broker; it stays
/kohort/NAME/controller                      the controller, under its lease
/kohort/NAME/topics/METRIC_NAME              its name, id, number of partitions and settings: there it is
/kohort/NAME/partitions/TOPIC_ID/0000000007  one partition; without a topic of that id it means nothing
/kohort/NAME/configs/4/NODE_ID               the altered settings of a resource, by the number of its type
/kohort/NAME/producer_ids                    the next one to give out
/kohort/NAME/changes/0000000003/7            the id of a broker's last change under this number, one of those
                                             that it makes at once: it knows its own if an answer is lost
/kohort/NAME/settled/UUID                    ends a transaction whose answer was lost, and which compares that
                                             it is not there. It goes with its broker's lease

The epochs of brokers and of the controller are the revisions that created their keys. A value may
have unknown fields; they are lost when the key is written again.
"""

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

import msgspec

from kohort.broker.etcd.messages import prefix_end
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import (
    BrokerState,
    ConfigResource,
    PartitionKey,
    ResourceType,
    TopicState,
)
from kohort.broker.metadata.topic_names import metric_name
from kohort.storage import StorageError

FORMAT = b"1"

Value = TypeVar("Value")


class TopicValue(msgspec.Struct, frozen=True):
    """A topic without its partitions."""

    name: str
    topic_id: UUID
    partitions: int
    configs: Mapping[str, str] = {}


class PartitionValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `PartitionState` without its index, under the names of its fields."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = ()


class Listener(msgspec.Struct, frozen=True):
    """Where one kind of clients connects."""

    name: str
    host: str
    port: int


class BrokerValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broker's registration."""

    listeners: tuple[Listener, ...]
    incarnation_id: UUID | None
    directories: tuple[UUID, ...]
    rack: str | None = None
    is_draining: bool = False
    is_drained: bool = False
    former_directories: tuple[UUID, ...] = ()


class ControllerValue(msgspec.Struct, frozen=True):
    """The controller."""

    node_id: int


class Keys:
    """The keys of one cluster."""

    def __init__(self, name: str) -> None:
        self.prefix = f"/kohort/{name}/".encode()
        self.end = prefix_end(self.prefix)
        self.format = self.prefix + b"format"
        self.cluster_id = self.prefix + b"cluster_id"
        self.controller = self.prefix + b"controller"
        self.producer_ids = self.prefix + b"producer_ids"
        self._brokers = self.prefix + b"brokers/"
        self._lives = self.prefix + b"lives/"
        self._topics = self.prefix + b"topics/"
        self._partitions = self.prefix + b"partitions/"
        self._configs = self.prefix + b"configs/"
        self._changes = self.prefix + b"changes/"
        self._settled = self.prefix + b"settled/"

    def broker(self, node_id: int) -> bytes:
        """Return the key of a broker's registration."""
        return b"%s%010d" % (self._brokers, node_id)

    def life(self, node_id: int) -> bytes:
        """Return the key of the last registered incarnation id of a broker."""
        return b"%s%010d" % (self._lives, node_id)

    def topic(self, name: str) -> bytes:
        """Return the key of a topic: the same for names that collide."""
        return self._topics + metric_name(name).encode()

    def partitions_of(self, topic_id: UUID) -> bytes:
        """Return the prefix of the keys of a topic's partitions."""
        return b"%s%s/" % (self._partitions, str(topic_id).encode())

    def partition(self, key: PartitionKey) -> bytes:
        """Return the key of a partition."""
        return b"%s%010d" % (self.partitions_of(key[0]), key[1])

    def config(self, resource: ConfigResource) -> bytes:
        """Return the key of a resource's settings."""
        return self._configs + f"{int(resource.type)}/{resource.name}".encode()

    def changes_of(self, owner: int | UUID) -> bytes:
        """Return the prefix of the keys of a broker's changes, or of all without a number."""
        name = f"{owner:010d}" if isinstance(owner, int) else str(owner)
        return self._changes + name.encode() + b"/"

    def change(self, owner: int | UUID, slot: int) -> bytes:
        """Return the key of the id of a change; many changes may be running."""
        return self.changes_of(owner) + b"%d" % slot

    def settled(self, change_id: UUID) -> bytes:
        """Return the key that is absent as long as the transaction of this id may be made."""
        return self._settled + str(change_id).encode()

    def parsed(self, key: bytes) -> object:
        """Return the meaning of the key: a `PartitionKey`, a `ConfigResource`, a broker's node id, or text.

        Text is `topic` for any topic's key, and what follows the prefix for all others.
        """
        kind, _, rest = key[len(self.prefix) :].decode().partition("/")
        try:
            if kind == "partitions":
                topic_id, _, index = rest.partition("/")
                return UUID(topic_id), int(index)
            if kind == "brokers":
                return int(rest)
            if kind == "configs":
                number, _, name = rest.partition("/")
                return ConfigResource(ResourceType(int(number)), name)
        except ValueError as error:
            raise StorageError(f"there is a key in etcd that kohort did not make: {key!r}") from error
        return "topic" if kind == "topics" else kind


def encoded(value: msgspec.Struct | Mapping[str, str]) -> bytes:
    """Return the JSON of a value."""
    return msgspec.json.encode(value)


def decoded(key: bytes, value: bytes, kind: type[Value]) -> Value:
    """Return the value of a key. Raises: StorageError that names the key."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"what etcd has under {key.decode()} can't be read: {error}") from error


def topic_value(topic: TopicState) -> bytes:
    """Return the value of the topic's key."""
    return encoded(TopicValue(topic.name, topic.topic_id, len(topic.partitions), topic.configs))


def partition_value(state: PartitionState) -> bytes:
    """Return the value of the partition's key."""
    return encoded(PartitionValue(*msgspec.structs.astuple(state)[1:]))


def partition_state(key: bytes, index: int, value: bytes) -> PartitionState:
    """Return the partition. Raises: StorageError."""
    found = decoded(key, value, PartitionValue)
    return PartitionState(index, *msgspec.structs.astuple(found))


def broker_value(broker: BrokerState) -> bytes:
    """Return the value of the broker's key."""
    addresses = ((broker.host, broker.port), *broker.more_addresses)
    listeners = tuple(
        Listener("PLAINTEXT" if not number else f"PLAINTEXT{number + 1}", *each)
        for number, each in enumerate(addresses)
    )
    return encoded(
        BrokerValue(
            listeners,
            broker.incarnation_id,
            broker.directories,
            broker.rack,
            broker.is_draining,
            broker.is_drained,
            broker.former_directories,
        )
    )


def broker_state(key: bytes, node_id: int, epoch: int, value: bytes) -> BrokerState:
    """Return the broker. Raises: StorageError."""
    found = decoded(key, value, BrokerValue)
    listener, *others = found.listeners
    return BrokerState(
        node_id,
        listener.host,
        listener.port,
        found.rack,
        epoch,
        found.incarnation_id,
        found.directories,
        found.is_draining,
        found.is_drained,
        found.former_directories,
        tuple((each.host, each.port) for each in others),
    )
