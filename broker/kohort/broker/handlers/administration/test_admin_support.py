"""A broker as far as the admin handlers know it: the real store in a folder, everything else recorded."""

from inspect import isawaitable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast

import trio

from kohort.broker.config import BrokerConfig, ConfigValue
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.handlers.table import HandlerTable
from kohort.broker.metadata import BrokerState, EmbeddedMetadataStore, Snapshot
from kohort.broker.metadata.client_metrics import TelemetryReceiver
from kohort.broker.metadata.configs import Configs, follow_broker_config
from kohort.broker.metadata.topics import Topics
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport.request import ANONYMOUS, ReceivedRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from kohort.storage import FileSystem, OsFileSystem

if TYPE_CHECKING:
    from kohort.broker.transport.connection import Connection

M = TypeVar("M", bound=Message)


class AdminWorld:
    """A broker that can be asked; questions and answers go over their bytes."""

    def __init__(self, folder: Path, filesystem: FileSystem | None = None, **config: ConfigValue) -> None:
        self.deleted: list[frozenset[str]] = []
        self.made_ready: list[str] = []
        self.now_ms = 1_000_000_000
        self.store = EmbeddedMetadataStore.open(
            filesystem or OsFileSystem(), folder, cluster_id="cluster", node_id=1
        )
        self.connection = SimpleNamespace(
            client_host="/127.0.0.1", client_software="", listener=0, principal=ANONYMOUS, closed=False
        )
        self.current = CurrentConfig(BrokerConfig(**config))
        follow_broker_config(self.store, self.current, 1)
        self.topics = Topics(self.store, self.current, self._ready)
        self.administration = Administration(
            self.store,
            self.topics,
            Configs(self.store, self.current, 1),
            self.current,
            "cluster",
            1,
            folder,
            TrioWorkers(cast(trio.Nursery, None)),
            TelemetryReceiver(self.store, lambda: self.now_ms),
        )
        self.handlers = HandlerTable(cast(GroupServices, None), cast(Data, None), self.administration)
        self.store.watch(self._note_deletions)

    def _note_deletions(self, before: Snapshot, after: Snapshot) -> None:
        if gone := before.topics.keys() - after.topics.keys():
            self.deleted.append(frozenset(gone))

    @property
    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    async def start(self) -> "AdminWorld":
        await self.store.register(BrokerState(1, "localhost", 9092))
        return self

    async def _ready(self, topic: str) -> None:
        self.made_ready.append(topic)

    async def ask(self, message: Message, answer: type[M], version: int | None = None) -> M:
        """Return the answer to `message` in this version, or in the highest."""
        api = BY_NAME[type(message).__name__.removesuffix("Request")]
        version = api.versions.highest if version is None else version
        request = ReceivedRequest(cast("Connection", self.connection), api, version, 1, "test")
        asked = api.request.decode(message.encode(version), version)
        result = self.handlers.handler_of(api.api_key)(asked, request)
        answered = await result if isawaitable(result) else result
        answered = answered.message if isinstance(answered, Prepared) else answered
        assert isinstance(answered, answer)
        return type(answered).decode(answered.encode(version), version)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; underscores in the names of configs stand for dots."""
        await self.ask(CreateTopicsRequest(topics=(creatable(name, partitions, configs=configs),)), Message)
        assert name in self.snapshot.topics


def creatable(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: dict[str, str] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in (configs or {}).items()
        ),
    )
