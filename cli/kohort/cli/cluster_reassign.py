"""`kohort cluster reassign`: replicas spread evenly over brokers, and moves that go on."""

import time

import click

from kohort.cli.completion import complete_brokers, complete_topics
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_json, print_line
from kohort.cli.spread import Assignment, Replicas, TargetBroker, TooFewBrokers, spread
from kohort.client import Admin, TopicPartition

LOOK_SECONDS = 0.2


@click.command()
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    help="Only these topics.  [default: all]",
    shell_complete=complete_topics,
)
@click.option(
    "--brokers",
    metavar="ID[,...]",
    help="Brokers that shall hold replicas.  [default: all that run]",
    shell_complete=complete_brokers,
)
@click.option(
    "--without",
    metavar="ID[,...]",
    default="",
    help="Brokers that shall hold none.",
    shell_complete=complete_brokers,
)
@click.option("--replication-factor", type=click.IntRange(1), help="How many replicas each shall have.")
@click.option("--dry-run", is_flag=True, help="Print what would be moved.")
@click.option("--wait", is_flag=True, help="Return when all moves are done.")
@click.option("--list", "only_list", is_flag=True, help="Print the moves in progress, and begin none.")
@click.option("--cancel", is_flag=True, help="Cancel all moves in progress.")
@json_option
@bootstrap_option
def reassign(
    *,
    topics: tuple[str, ...],
    brokers: str | None,
    without: str,
    replication_factor: int | None,
    dry_run: bool,
    wait: bool,
    only_list: bool,
    cancel: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Spread replicas and leaders evenly over brokers, with as few moves as that takes.

    \b
    kohort cluster reassign --wait                        a broker is new
    kohort cluster reassign --without 2 --wait            broker 2 is to go, or is gone
    kohort cluster reassign -t orders --replication-factor 3
    """
    with open_admin(servers) as admin:
        if cancel:
            moving = dict.fromkeys(admin.list_partition_reassignments())
            if moving:
                admin.alter_partition_reassignments(moving)
            _print({}, as_json, f"{len(moving)} move(s) are given up.")
            return
        if only_list:
            found = {each: move.replicas for each, move in admin.list_partition_reassignments().items()}
            _print(found, as_json, f"{len(found)} partition(s) move.")
            return
        present = _present(admin, topics)
        targets = _target_brokers(
            admin, brokers, without, {each for held in present.values() for each in held}
        )
        try:
            plan = spread(present, targets, replication_factor)
        except TooFewBrokers as error:
            raise click.ClickException(str(error)) from None
        if plan and not dry_run:
            admin.alter_partition_reassignments(plan)
        if wait and not dry_run:
            _wait(admin)
    done = "would change" if dry_run else "have changed" if wait else "are on their way"
    _print(plan, as_json, f"{len(plan)} partition(s) {done}.")


def _target_brokers(admin: Admin, brokers: str | None, without: str, holders: set[int]) -> list[TargetBroker]:
    """Return the brokers that may hold replicas; `holders` are those that hold some now.

    Raises: click.UsageError for one of --brokers that does not run, and one of --without that nobody knows.
    """
    live = {each.node_id: TargetBroker(each.node_id, each.rack) for each in admin.describe_cluster().nodes}
    wanted = list(live) if brokers is None else _numbers(brokers, "--brokers")
    for each in wanted:
        if each not in live:
            raise click.UsageError(f"--brokers: broker {each} does not run")
    left_out = _numbers(without, "--without")
    for each in left_out:
        if each not in live and each not in holders:
            raise click.UsageError(f"--without: there is no broker {each}, and it holds no replica")
    return [live[each] for each in wanted if each not in left_out]


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",") if each.strip()]
    except ValueError:
        raise click.UsageError(f"{option} {text!r} is not ID,ID,...") from None


def _present(admin: Admin, topics: tuple[str, ...]) -> Assignment:
    names = topics or admin.list_topics(include_internal=True)
    if not names:
        return {}
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in admin.describe_topic_partitions(*names).values()
        for each in topic.partitions
    }


def _wait(admin: Admin) -> None:
    while admin.list_partition_reassignments():
        time.sleep(LOOK_SECONDS)


def _print(plan: Assignment, as_json: bool, words: str) -> None:
    if as_json:
        print_json({"version": 1, "partitions": [_as_kafka_does(*each) for each in plan.items()]})
        return
    for partition, replicas in plan.items():
        print_line(f"{partition.topic}-{partition.partition} to {', '.join(map(str, replicas))}")
    print_line(words)


def _as_kafka_does(partition: TopicPartition, replicas: Replicas) -> dict[str, object]:
    """Return it as kafka-reassign-partitions writes and reads it."""
    return {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
