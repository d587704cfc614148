"""Whether brokers answer, and whether what they have clients connect to can be reached from here."""

import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Iterator

import click

from kohort.cli.client_settings import with_settings
from kohort.cli.diagnosis import Finding, Level
from kohort.cli.options import API_TIMEOUT_MS
from kohort.cli.probe import answers_kafka
from kohort.client import Admin
from kohort.client.addresses import parse_address
from kohort.client.admin_values import ClusterDescription
from kohort.client.config import AdminOptions
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.values import Node

SLOW_SECONDS = 1.0
PARTITIONS_NAMED = 5
_LOOK_THERE = "Is that a listener for Kafka's clients? Look at the log of the process that listens there."
_ONE_CLUSTER = "Clients would reach one cluster or the other: name brokers of one cluster alone."
_HOW_TO_ADVERTISE = (
    "Clients are told to connect to that address. Have the broker advertise one that they reach: "
    "kohort serve --advertise HOST:PORT"
)


def look_at_broker(servers: str) -> Iterator[Finding]:
    """Yield how each address that was given answers, and what those that do tell of the others."""
    reached: list[str] = []
    for entry in filter(None, map(str.strip, servers.split(","))):
        try:
            host, port = parse_address(entry)
        except ConfigurationError as error:
            raise click.UsageError(f"--bootstrap-server: {error}") from None
        finding = _reach(_bootstrap(entry), host, port)
        if finding.level is not Level.FAIL:
            reached.append(entry)
        yield finding
    if reached:
        yield from _look_at_cluster(reached)


def _bootstrap(entry: str) -> str:
    return f"bootstrap server {entry}"


def _reach(subject: str, host: str, port: int) -> Finding:
    """Return how an address answers, from here."""
    began = time.monotonic()
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        text = f"the name {host!r} is unknown here ({error.strerror or error})"
        return Finding(subject, Level.FAIL, text, "Give a name that this machine resolves, or an IP address.")
    try:
        answered = answers_kafka(host, port)
    except KohortError as error:  # It speaks another protocol, or TLS fails.
        return Finding(subject, Level.FAIL, str(error))
    except TimeoutError:
        return Finding(
            subject, Level.FAIL, "no connection in time", "A firewall may drop what is sent there."
        )
    except OSError as error:
        return Finding(subject, Level.FAIL, error.strerror or str(error), _how_to_listen(host, port))
    seconds = time.monotonic() - began
    if not answered:
        return Finding(subject, Level.FAIL, "takes connections and does not answer", _LOOK_THERE)
    if seconds > SLOW_SECONDS:
        return Finding(subject, Level.WARN, f"answers after {seconds:.1f} s", "Look at its load and disk.")
    return Finding(subject, Level.OK, f"answers in {seconds * 1000:.0f} ms")


def _how_to_listen(host: str, port: int) -> str:
    if _is_loopback(host):
        return f"Nobody listens there. Start a broker with: kohort serve --listen {host}:{port}"
    return (
        "Nobody listens there: is the broker running, and does it listen at this address and not 127.0.0.1?"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _look_at_cluster(reached: list[str]) -> Iterator[Finding]:
    """Yield what the first broker tells of its cluster, and which addresses do not lead there."""
    first, *others = reached
    try:
        with _admin(first) as admin:
            cluster = admin.describe_cluster()
            yield Finding("cluster", Level.OK, f"{cluster.cluster_id}, {len(cluster.nodes)} broker(s)")
            for entry in others:
                elsewhere = _elsewhere(_bootstrap(entry), entry, cluster.cluster_id, _ONE_CLUSTER)
                if elsewhere is not None:
                    yield elsewhere
            yield from _look_at_advertised(cluster, reached)
            yield from _look_at_partitions(admin)
    except KohortError as error:
        yield Finding("cluster", Level.FAIL, str(error))


def _admin(address: str) -> Admin:
    options: AdminOptions = {
        "bootstrap_servers": address,
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "request_timeout_ms": API_TIMEOUT_MS,
    }
    options = with_settings(options)
    return Admin(**options)


def _elsewhere(subject: str, address: str, cluster_id: str | None, advice: str) -> Finding | None:
    """Return what is wrong where the broker at an address is not of this cluster, or does not say so."""
    try:
        with _admin(address) as admin:  # It knows no other address, so that this one answers.
            theirs = admin.describe_cluster().cluster_id
    except KohortError as error:
        return Finding(subject, Level.FAIL, str(error))
    if theirs == cluster_id:
        return None
    return Finding(subject, Level.FAIL, f"belongs to another cluster, {theirs}, not {cluster_id}", advice)


def _look_at_advertised(cluster: ClusterDescription, reached: list[str]) -> Iterator[Finding]:
    """Yield for each broker whether a client here gets to it by the address that it advertises."""
    claimed = Counter(node.address for node in cluster.nodes)
    for node in cluster.nodes:
        finding = _look_at_node(node, cluster.cluster_id, reached)
        if claimed[node.address] > 1 and finding.level is not Level.FAIL:
            text = f"{claimed[node.address]} brokers of this cluster advertise this address"
            finding = Finding(finding.subject, Level.FAIL, text, _HOW_TO_ADVERTISE)
        yield finding


def _look_at_node(node: Node, cluster_id: str | None, reached: list[str]) -> Finding:
    subject = f"broker {node.node_id}, advertised as {node.address}"
    finding = _reach(subject, node.host, node.port)
    if finding.level is not Level.FAIL:
        if node.address in reached:
            return finding  # Its cluster is known.
        return _elsewhere(subject, node.address, cluster_id, _HOW_TO_ADVERTISE) or finding
    advice = _HOW_TO_ADVERTISE
    if _is_loopback(node.host) and not all(_is_loopback(parse_address(each)[0]) for each in reached):
        advice = f"It is every machine's own address, and the broker is on another. {advice}"
    return Finding(subject, finding.level, finding.text, advice)


def _look_at_partitions(admin: Admin) -> Iterator[Finding]:
    topics = admin.describe_topics(*admin.list_topics(include_internal=True))
    partitions = [(topic.name, each) for topic in topics.values() for each in topic.partitions]
    leaderless = [f"{name}-{each.partition}" for name, each in partitions if each.leader < 0]
    behind = [f"{name}-{each.partition}" for name, each in partitions if len(each.isr) < len(each.replicas)]
    count = f"{len(partitions):,} in {len(topics):,} topics"
    if leaderless:
        yield Finding("partitions", Level.FAIL, f"{len(leaderless):,} have no leader: {_some(leaderless)}")
    elif behind:
        text = f"{len(behind):,} have replicas that are not in sync: {_some(behind)}"
        yield Finding("partitions", Level.WARN, text)
    else:
        yield Finding("partitions", Level.OK, f"{count}, each with a leader")


def _some(names: list[str]) -> str:
    more = len(names) - PARTITIONS_NAMED
    return ", ".join(names[:PARTITIONS_NAMED]) + (f" and {more:,} more" if more > 0 else "")
