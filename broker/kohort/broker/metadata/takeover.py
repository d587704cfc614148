"""A broker's first start on a folder that Apache Kafka wrote: its metadata becomes ours.

Kafka's files are not changed: the partitions are used in place, and the metadata log stays for
inspection. From then on the metadata file counts.
"""

from collections.abc import Mapping
from pathlib import Path

import structlog

from kohort.broker.authorization.acls import checked_binding
from kohort.broker.config import BrokerConfig, ConfigError, TopicConfig
from kohort.broker.metadata import acls, quotas
from kohort.broker.metadata.format import Stored
from kohort.broker.metadata.kraft import KraftMetadata, KraftTopic, read_kraft_metadata
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import ConfigResource, ResourceType, TopicState
from kohort.protocol.errors import ApiError
from kohort.storage import FileSystem, StorageError

LEFT_BEHIND = {
    10: "delegation tokens",
    11: "SCRAM credentials",
}
"""Records whose meaning is lost, by api key."""

log = structlog.get_logger("kohort.metadata")


def take_over(file_system: FileSystem, folder: Path, node_id: int) -> Stored:
    """Return the metadata that Kafka's log has for this one broker.

    Raises: StorageError if the log can't be read, or if partitions have replicas elsewhere.
    """
    kraft = read_kraft_metadata(file_system, folder)
    stored = Stored(
        version=1,
        next_producer_id=kraft.next_producer_id,
        configs={**_configs(kraft), **_entries(kraft), **_quotas(kraft)},
        topics=tuple(_topic(topic, kraft, folder, node_id) for topic in kraft.topics.values()),
    )
    left = [text for api_key, text in LEFT_BEHIND.items() if kraft.unread[api_key]]
    if left:
        log.warning("some of what Apache Kafka knew has no meaning here", left_behind=", ".join(left))
    log.info(
        "topics of Apache Kafka were taken over",
        topics=len(stored.topics),
        partitions=sum(len(topic.partitions) for topic in stored.topics),
    )
    return stored


def _topic(topic: KraftTopic, kraft: KraftMetadata, folder: Path, node_id: int) -> TopicState:
    """Return the topic with its one replica here, under a leader epoch of its own. Raises: StorageError."""
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        raise StorageError(f"{folder}: Kafka's metadata has not every partition of {topic.name}")
    partitions = [topic.partitions[index] for index in range(len(topic.partitions))]
    for each in partitions:
        if each.replicas != (node_id,):
            raise StorageError(
                f"{folder}: {topic.name}-{each.index} has its replicas on {list(each.replicas)}, and this is"
                f" node {node_id}: only a single Kafka broker's folder can be taken over (see node.id)"
            )
    configs = kraft.configs.get((ResourceType.TOPIC, topic.name), {})
    return TopicState(
        topic.name,
        topic.topic_id,
        tuple(_here(each, node_id) for each in partitions),
        _understood(TopicConfig, configs, topic.name),
    )


def _here(before: PartitionState, node_id: int) -> PartitionState:
    return PartitionState(
        before.index,
        node_id,
        before.leader_epoch + 1,  # Batches appended from now on differ from those of Kafka.
        (node_id,),
        (node_id,),
        before.partition_epoch + 1,
    )


def _configs(kraft: KraftMetadata) -> dict[ConfigResource, Mapping[str, str]]:
    """Return the settings of brokers; those of topics are with the topics."""
    configs: dict[ConfigResource, Mapping[str, str]] = {}
    for (kind, name), values in kraft.configs.items():
        if kind == ResourceType.BROKER:
            kept = _understood(BrokerConfig, values, name or "every broker")
            if kept:
                configs[ConfigResource(ResourceType.BROKER, name)] = kept
        elif kind != ResourceType.TOPIC:
            log.warning("settings of Apache Kafka are left out", resource_type=kind, of=name)
    return configs


def _entries(kraft: KraftMetadata) -> dict[ConfigResource, Mapping[str, str]]:
    """Return the access control entries, which hold where there is an authorizer."""
    configs: dict[ConfigResource, dict[str, str]] = {}
    for each in kraft.entries.values():
        try:
            pattern, entry = checked_binding(
                each.resource_type,
                each.pattern_type,
                each.resource_name,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
        except ApiError as error:
            log.warning(
                "an access control entry of Apache Kafka is left out", of=each.principal, reason=str(error)
            )
            continue
        configs.setdefault(acls.resource_of(pattern), {})[acls.text_of(entry)] = ""
    return dict(configs)


def _quotas(kraft: KraftMetadata) -> dict[ConfigResource, Mapping[str, str]]:
    """Return the quotas of users, client ids and addresses."""
    return {
        quotas.resource_of(dict(entity)): {name: repr(value) for name, value in values.items()}
        for entity, values in kraft.quotas.items()
        if values
    }


def _understood(
    config: type[BrokerConfig | TopicConfig], values: Mapping[str, str], whose: str
) -> Mapping[str, str]:
    """Return the settings that this broker knows and would take; the others are named in the log."""
    kept: dict[str, str] = {}
    for name, value in values.items():
        try:
            config.parse_values({name: value})
        except ConfigError as error:
            log.warning("a setting of Apache Kafka is left out", of=whose, setting=name, reason=str(error))
        else:
            kept[name] = value
    return kept
