"""`kohort cluster describe|drain|undrain|balance|unregister`."""

import time
from collections import Counter
from collections.abc import Iterator

import click

from kohort.cli.completion import complete_brokers
from kohort.cli.options import bootstrap_option, json_option, open_admin, require_running, yes_option
from kohort.cli.output import ask_before, print_json, print_line
from kohort.client import Admin, BrokerError, ElectionType, ItemsError, ResourceType
from kohort.client.admin_values import PartitionDetails
from kohort.protocol.errors import ErrorCode

DRAINED = "kohort.drained"
DRAIN_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.1


@click.command()
@json_option
@bootstrap_option
def describe(as_json: bool, servers: str) -> None:
    """Print the cluster's id and its brokers: addresses, how many partitions each leads and holds."""
    with open_admin(servers) as admin:
        found = admin.describe_cluster()
        states = list(_partitions(admin))
    leads = Counter(each.leader for each in states)
    holds = Counter(node_id for each in states for node_id in each.replicas)
    if as_json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller_id": found.controller_id,
                "brokers": [
                    {
                        "id": each.node_id,
                        "host": each.host,
                        "port": each.port,
                        "rack": each.rack,
                        "leads": leads[each.node_id],
                        "holds": holds[each.node_id],
                    }
                    for each in found.nodes
                ],
                "partitions": len(states),
                "under_replicated": sum(len(each.isr) < len(each.replicas) for each in states),
                "offline": sum(each.leader < 0 for each in states),
            }
        )
        return
    print_line(f"Cluster ID: {found.cluster_id}")
    print_line(f"{'BROKER':<8} {'ADDRESS':<30} {'RACK':<15} {'CONTROLLER':<10} {'LEADS':>6} {'HOLDS':>6}")
    for each in found.nodes:
        controller = "yes" if each.node_id == found.controller_id else "-"
        print_line(
            f"{each.node_id:<8} {each.address:<30} {each.rack or '-':<15} {controller:<10} "
            f"{leads[each.node_id]:>6} {holds[each.node_id]:>6}"
        )
    for node_id in sorted(holds.keys() - {each.node_id for each in found.nodes}):
        print_line(f"{node_id:<8} {'gone':<30} {'-':<15} {'-':<10} {leads[node_id]:>6} {holds[node_id]:>6}")


def _partitions(admin: Admin) -> Iterator[PartitionDetails]:
    names = admin.list_topics(include_internal=True)
    if names:
        for topic in admin.describe_topic_partitions(*names).values():
            yield from topic.partitions


@click.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0), shell_complete=complete_brokers)
@json_option
@bootstrap_option
def drain(broker: int, as_json: bool, servers: str) -> None:
    """Move leadership away from broker ID, also after a restart, until it is undrained.

    It keeps its replicas and stays in sync. Returns when it leads no partition any more.
    """
    with open_admin(servers) as admin:
        require_running(admin, broker)
        admin.alter_configs(ResourceType.BROKER, str(broker), values={DRAINED: "true"})
        left = _wait_until_drained(admin, broker)
    _say(
        as_json,
        {"broker": broker, "drained": True, "leads": left},
        f"Broker {broker} is drained."
        if not left
        else f"Broker {broker} is drained, but for {left} partition(s) that nobody else can lead.",
    )


def _wait_until_drained(admin: Admin, broker: int) -> int:
    """Return how many it leads that nobody else can. Raises: click.ClickException if it lasts."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    live = {each.node_id for each in admin.describe_cluster().nodes}
    while True:
        led = [each for each in _partitions(admin) if each.leader == broker]
        if not any(live & set(each.isr) - {broker} for each in led):
            return len(led)
        if time.monotonic() > deadline:
            raise click.ClickException(f"broker {broker} still leads {len(led)} partition(s) that others can")
        time.sleep(LOOK_SECONDS)


@click.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0), shell_complete=complete_brokers)
@json_option
@bootstrap_option
def undrain(broker: int, as_json: bool, servers: str) -> None:
    """Let broker ID lead again; `kohort cluster balance` makes it lead at once."""
    with open_admin(servers) as admin:
        require_running(admin, broker)
        admin.alter_configs(ResourceType.BROKER, str(broker), delete=[DRAINED])
    _say(as_json, {"broker": broker, "drained": False}, f"Broker {broker} may lead again.")


@click.command()
@json_option
@bootstrap_option
def balance(as_json: bool, servers: str) -> None:
    """Let the preferred replica of each partition lead again, where it is in sync."""
    failed = 0
    with open_admin(servers) as admin:
        try:
            elected = sum(admin.elect_leaders(ElectionType.PREFERRED, None).values())
        except ItemsError as error:
            if any(_code(each) != ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE for each in error.errors.values()):
                raise
            failed, elected = len(error.errors), len(error.results)
    words = f"{elected} partition(s) have another leader now."
    if failed:
        words += f" The preferred leaders of {failed} are not in sync, or are drained."
    _say(as_json, {"elected": elected, "not_available": failed}, words)


def _code(error: object) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


@click.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0), shell_complete=complete_brokers)
@json_option
@yes_option
@bootstrap_option
def unregister(broker: int, as_json: bool, yes: bool, servers: str) -> None:
    """Unregister broker ID, which is gone for good, and remove its settings.

    Move its replicas to others first: kohort cluster reassign --without ID
    """
    with open_admin(servers) as admin:
        if broker in {each.node_id for each in admin.describe_cluster().nodes}:
            question = f"Broker {broker} runs, and registers again at its next start. Unregister it?"
            ask_before(question, yes=yes, unnamed=True)
        admin.unregister_broker(broker)
    _say(as_json, {"broker": broker, "registered": False}, f"Broker {broker} is taken out.")


def _say(as_json: bool, facts: dict[str, object], words: str) -> None:
    if as_json:
        print_json(facts)
    else:
        print_line(words)
