"""Whether brokers answer, and whether what they have clients connect to can be reached from here."""

import ipaddress
import socket
import time
from collections.abc import Iterator

import click

from kohort.cli.client_settings import with_settings
from kohort.cli.diagnosis import Finding, Level
from kohort.cli.options import API_TIMEOUT_MS, SpeaksOtherwise, answers_kafka
from kohort.client import Admin
from kohort.client.config import AdminOptions, parse_address
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.values import Node

SLOW_SECONDS = 1.0
PARTITIONS_NAMED = 5


def look_at_broker(servers: str) -> Iterator[Finding]:
    """Yield how each address that was given answers, and what those that do tell of the others."""
    reached: list[str] = []
    for entry in filter(None, map(str.strip, servers.split(","))):
        try:
            host, port = parse_address(entry)
        except ConfigurationError as error:
            raise click.UsageError(f"--bootstrap-server: {error}") from None
        finding = _reach(f"bootstrap server {entry}", host, port)
        if finding.level is not Level.FAIL:
            reached.append(host)
        yield finding
    if reached:
        yield from _look_at_cluster(servers, reached)


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
    except SpeaksOtherwise as error:
        return Finding(subject, Level.FAIL, str(error))
    except TimeoutError:
        return Finding(
            subject, Level.FAIL, "no connection in time", "A firewall may drop what is sent there."
        )
    except OSError as error:
        return Finding(subject, Level.FAIL, error.strerror or str(error), _how_to_listen(host, port))
    seconds = time.monotonic() - began
    if not answered:
        return Finding(subject, Level.FAIL, "takes connections and does not answer", "Look at its log.")
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


def _look_at_cluster(servers: str, reached: list[str]) -> Iterator[Finding]:
    try:
        options: AdminOptions = {
            "bootstrap_servers": servers,
            "default_api_timeout_ms": API_TIMEOUT_MS,
            "request_timeout_ms": API_TIMEOUT_MS,
        }
        options = with_settings(options)
        with Admin(**options) as admin:
            cluster = admin.describe_cluster()
            yield Finding("cluster", Level.OK, f"{cluster.cluster_id}, {len(cluster.nodes)} broker(s)")
            for node in cluster.nodes:
                yield _look_at_advertised(node, reached)
            yield from _look_at_partitions(admin)
    except KohortError as error:
        yield Finding("cluster", Level.FAIL, str(error))


def _look_at_advertised(node: Node, reached: list[str]) -> Finding:
    """Return whether a client here gets to the address by which a broker calls itself."""
    subject = f"broker {node.node_id}, advertised as {node.address}"
    finding = _reach(subject, node.host, node.port)
    if finding.level is not Level.FAIL:
        return finding
    advice = (
        "That is what clients are told to connect to. Have the broker say an address that they reach: "
        "kohort serve --advertise HOST:PORT"
    )
    if _is_loopback(node.host) and not all(map(_is_loopback, reached)):
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
