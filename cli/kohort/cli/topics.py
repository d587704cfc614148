"""`kohort topics`."""

import click

from kohort.cli.options import (
    API_TIMEOUT_MS,
    bootstrap_option,
    json_option,
    key_values,
    require_broker,
)
from kohort.cli.output import print_json, print_line
from kohort.client import (
    Admin,
    BrokerError,
    ConfigEntry,
    ConfigSource,
    NewTopic,
    ResourceType,
    TopicDescription,
)
from kohort.protocol.errors import ErrorCode


@click.group()
def topics() -> None:
    """List, create, describe, alter and delete topics."""


def open_admin(servers: str) -> Admin:
    """Return an Admin for the addresses that an option gave."""
    return Admin(
        bootstrap_servers=require_broker(servers),
        client_id="kohort-cli",
        default_api_timeout_ms=API_TIMEOUT_MS,
        request_timeout_ms=API_TIMEOUT_MS,
    )


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also list the cluster's own topics.")
@json_option
@bootstrap_option
def list_topics(internal: bool, as_json: bool, servers: str) -> None:
    """Print the names of the topics."""
    with open_admin(servers) as admin:
        names = admin.list_topics(include_internal=internal)
    if as_json:
        print_json(list(names))
    else:
        for name in names:
            print_line(name)


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partitions", "-p", type=click.IntRange(1), help="Number of partitions.  [default: the broker's]"
)
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="[default: the broker's]")
@click.option(
    "--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting of the topic."
)
@click.option("--if-not-exists", is_flag=True, help="Leave a topic alone that exists already.")
@bootstrap_option
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    servers: str,
) -> None:
    """Create topics."""
    settings = key_values(configs, "--config")
    with open_admin(servers) as admin:
        for name in names:
            try:
                admin.create_topics(NewTopic(name, partitions or -1, replication_factor or -1, settings))
            except BrokerError as error:
                if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise
            else:
                print_line(f"Created topic {name}.")


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
@bootstrap_option
def describe(names: tuple[str, ...], as_json: bool, servers: str) -> None:
    """Print the partitions and the settings of topics: of these, or of all."""
    with open_admin(servers) as admin:
        described = admin.describe_topics(*(names or admin.list_topics()))
        configs = {name: _own_configs(admin.describe_configs(ResourceType.TOPIC, name)) for name in described}
    if as_json:
        print_json([_as_json(each, configs[each.name]) for each in described.values()])
        return
    for topic in described.values():
        _print_topic(topic, configs[topic.name])


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, servers: str) -> None:
    """Delete topics with all their records."""
    with open_admin(servers) as admin:
        for name in names:
            try:
                admin.delete_topics(name)
            except BrokerError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not if_exists:
                    raise BrokerError(error.code, f"topic {name!r} does not exist") from None
            else:
                print_line(f"Deleted topic {name}.")


@topics.command()
@click.argument("name")
@click.option("--partitions", "-p", type=click.IntRange(1), help="The new number of partitions: only more.")
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting to change.")
@click.option("--delete-config", "-d", multiple=True, metavar="NAME", help="A setting to take back.")
@bootstrap_option
def alter(
    name: str, partitions: int | None, configs: tuple[str, ...], delete_config: tuple[str, ...], servers: str
) -> None:
    """Give a topic more partitions, or other settings."""
    values = key_values(configs, "--config")
    if partitions is None and not values and not delete_config:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    with open_admin(servers) as admin:
        admin.describe_topics(name)
        if partitions is not None:
            admin.create_partitions({name: partitions})
        if values or delete_config:
            admin.alter_configs(ResourceType.TOPIC, name, values=values, delete=delete_config)
    print_line(f"Altered topic {name}.")


def _own_configs(configs: dict[str, ConfigEntry]) -> dict[str, str | None]:
    """Return what was set for the topic itself."""
    return {
        name: entry.value
        for name, entry in sorted(configs.items())
        if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def _as_json(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.is_internal,
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
            }
            for each in topic.partitions
        ],
    }


def _print_topic(topic: TopicDescription, configs: dict[str, str | None]) -> None:
    settings = ",".join(f"{name}={value}" for name, value in configs.items())
    replication_factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    print_line(
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor}\tConfigs: {settings}"
    )
    for each in topic.partitions:
        leader = "none" if each.leader < 0 else each.leader
        replicas, isr = (",".join(map(str, ids)) for ids in (each.replicas, each.isr))
        print_line(
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}"
        )
