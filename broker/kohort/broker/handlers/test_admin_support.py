"""A broker as far as the admin handlers know it: the real store in a folder, everything else recorded."""

from inspect import isawaitable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast

from kohort.broker.config import BrokerConfig, ConfigValue
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.handlers.table import handler_of
from kohort.broker.metadata import BrokerState, EmbeddedMetadataStore, Snapshot
from kohort.broker.metadata.configs import follow_broker_config
from kohort.broker.runtime.request import Request
from kohort.protocol.messages import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from kohort.storage import FileSystem, OsFileSystem

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.connection import Connection

M = TypeVar("M", bound=Message)


class AdminWorld:
    """A broker that can be asked; questions and answers go over their bytes."""

    def __init__(self, folder: Path, filesystem: FileSystem | None = None, **config: ConfigValue) -> None:
        self.deleted: list[frozenset[str]] = []
        self.made_ready: list[str] = []
        self.store = EmbeddedMetadataStore.open(
            filesystem or OsFileSystem(), folder, cluster_id="cluster", node_id=1
        )
        self.connection = SimpleNamespace(client_software="")
        self.broker = cast(
            "Broker",
            SimpleNamespace(
                config=BrokerConfig(**config),
                node_id=1,
                cluster_id="cluster",
                metadata=self.store,
                coordinators=SimpleNamespace(topics_deleted=self.deleted.append),
                partitions=SimpleNamespace(ready=self._ready),
                data=SimpleNamespace(path=folder),
            ),
        )
        follow_broker_config(self.broker)

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
        request = Request(cast("Connection", self.connection), api, version, 1, "test")
        asked = api.request.decode(message.encode(version), version)
        result = handler_of(api.api_key)(self.broker, asked, request)
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
