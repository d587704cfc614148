"""`kohort topics`."""

import click

from kohort.cli.completion import complete_topic_settings, complete_topics
from kohort.cli.config_changes import check_names, own_configs
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, key_values, open_admin, yes_option
from kohort.cli.output import ask_before, print_json, print_line
from kohort.client import (
    LATEST,
    Admin,
    BrokerError,
    NewTopic,
    ResourceType,
    TopicDescription,
    TopicPartition,
)
from kohort.protocol.errors import ErrorCode


@click.group(cls=CommandGroup)
def topics() -> None:
    """List, create, describe, alter and delete topics."""


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
    "--config",
    "-c",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the topic.",
    shell_complete=complete_topic_settings,
)
@click.option("--if-not-exists", is_flag=True, help="Leave a topic alone that exists already.")
@json_option
@bootstrap_option
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Create topics."""
    settings = key_values(configs, "--config")
    done = _Done(as_json)
    with open_admin(servers) as admin, done:
        for name in names:
            try:
                admin.create_topics(NewTopic(name, partitions or -1, replication_factor or -1, settings))
            except BrokerError as error:
                if not (if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise
                done.unchanged(name)
            else:
                done.say("Created", name)


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_topics)
@json_option
@bootstrap_option
def describe(names: tuple[str, ...], as_json: bool, servers: str) -> None:
    """Print the partitions and settings of the named topics, or of all."""
    with open_admin(servers) as admin:
        described = admin.describe_topics(*(names or admin.list_topics()))
        configs = {name: own_configs(admin.describe_configs(ResourceType.TOPIC, name)) for name in described}
    if as_json:
        print_json([_as_json(each, configs[each.name]) for each in described.values()])
        return
    for topic in described.values():
        _print_topic(topic, configs[topic.name])


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@yes_option
@json_option
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, yes: bool, as_json: bool, servers: str) -> None:
    """Delete topics with all their records. At a terminal it asks first."""
    done = _Done(as_json)
    with open_admin(servers) as admin, done:
        ask_before(f"Delete {', '.join(names)} with all records?", yes=yes)
        for name in names:
            try:
                admin.delete_topics(name)
            except BrokerError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not if_exists:
                    raise BrokerError(error.code, f"topic {name!r} does not exist") from None
                done.unchanged(name)
            else:
                done.say("Deleted", name)


@topics.command("delete-records")
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--before",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Delete the records before this offset.  [default: everything]",
)
@click.option(
    "--partition",
    "-p",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only in this partition; may be repeated.",
)
@yes_option
@json_option
@bootstrap_option
def delete_records(
    *,
    name: str,
    before: int | None,
    partitions: tuple[int, ...],
    yes: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Delete the oldest records of a topic; the topic stays. At a terminal it asks first.

    Without --before all records are deleted: a script confirms that with --yes.

    \b
    kohort topics delete-records orders --partition 0 --before 1000
    """
    if before is not None and not partitions:
        raise click.UsageError("--before is an offset in one partition: give --partition")
    with open_admin(servers) as admin:
        chosen = [TopicPartition(name, each) for each in partitions or _partitions_of(admin, name)]
        latest = admin.list_offsets(dict.fromkeys(chosen, LATEST)) if before is None else {}
        ends = {each: latest[each].offset if before is None else before for each in chosen}
        count = f"{len(ends)} partition{'' if len(ends) == 1 else 's'}"
        what = "all records" if before is None else f"the records before offset {before}"
        ask_before(f"Delete {what} in {count} of {name}?", yes=yes, unnamed=before is None)
        starts = admin.delete_records(ends)
    if as_json:
        print_json([{"partition": each.partition, "log_start_offset": starts[each]} for each in chosen])
        return
    for each in chosen:
        print_line(f"{each} begins at offset {starts[each]}.")


def _partitions_of(admin: Admin, name: str) -> list[int]:
    return [each.partition for each in admin.describe_topics(name)[name].partitions]


@topics.command()
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--partitions", "-p", type=click.IntRange(1), help="The new number of partitions. It can only grow."
)
@click.option(
    "--config",
    "-c",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting to change.",
    shell_complete=complete_topic_settings,
)
@click.option(
    "--delete-config",
    "-d",
    multiple=True,
    metavar="NAME",
    help="A setting to reset to its default.",
    shell_complete=complete_topic_settings,
)
@json_option
@bootstrap_option
def alter(
    *,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    delete_config: tuple[str, ...],
    as_json: bool,
    servers: str,
) -> None:
    """Add partitions to a topic, or change its settings."""
    values = key_values(configs, "--config")
    if partitions is None and not values and not delete_config:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    done = _Done(as_json)
    with open_admin(servers) as admin, done:
        admin.describe_topics(name)
        if delete_config:
            check_names(delete_config, admin.describe_configs(ResourceType.TOPIC, name), "a topic")
        if partitions is not None:
            admin.create_partitions({name: partitions})
        if values or delete_config:
            admin.alter_configs(ResourceType.TOPIC, name, values=values, delete=delete_config)
        done.say("Altered", name)


class _Done:
    """What was done to which topic: a line for each, or one JSON list behind them all."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._results: list[dict[str, str]] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        if self._as_json:
            print_json(self._results)

    def say(self, verb: str, name: str) -> None:
        """Tell that this was done."""
        self._results.append({"topic": name, "result": verb.lower()})
        if not self._as_json:
            print_line(f"{verb} topic {name}.")

    def unchanged(self, name: str) -> None:
        """Note that nothing was to be done."""
        self._results.append({"topic": name, "result": "unchanged"})


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
