"""Destinations, and the TOML file that names them."""

import ipaddress
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from kohort.client.errors import ConfigurationError
from kohort.client.workers.windows import Order
from kohort.queues.forward.routing import Route, RouteAction
from kohort.queues.forward.verdict import DELAY_MS_MAX

TOPIC_LENGTH_MAX = 249
HELD_MS_MAX = 7 * 86_400_000
PORTS = {"http": 80, "https": 443, "grpc": 443, "grpcs": 443}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_OWN_TOPIC = re.compile(r"dead|stash|route|route-.+|retry-[0-9]+")


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One topic, pushed to one service in the name of one group."""

    name: str
    topic: str
    url: str
    """`http(s)://HOST:PORT/PATH`, or `grpc(s)://HOST:PORT/PACKAGE.SERVICE/METHOD`."""
    group_id: str = ""
    """`forward-<name>`."""
    stream: bool = False
    """Records go through one stream of gRPC, and are answered by their ids: see push.proto."""
    delay_ms: int = 0
    """A record is pushed no sooner than so long after its timestamp."""
    route: tuple[Route, ...] = ()
    """The first route that takes a record decides; where none does, it is pushed to `url`."""
    order: Order = Order.NONE
    """Retries leave their place where there is no order, and otherwise hold up what is behind them."""
    timeout_ms: int = 10_000
    attempts_max: int = 5
    retry_delays_ms: tuple[int, ...] = (1_000, 10_000, 60_000)
    """One retry topic for each, and how long a record stays there."""
    concurrency_max: int = 100
    rate_max: float = 0.0
    """Pushes that may begin in a second; 0 for no limit."""
    window_max: int = 1_000
    """So many records of a partition are in hand at most."""
    failures_max: int = 10
    """So many failures in a row open the circuit."""
    token_file: str = ""
    """A bearer token is read from there for each push, so that it can be replaced."""
    ca_file: str = ""
    """Certificates that the service's is checked with, instead of the system's."""
    drain_timeout_ms: int = 30_000
    session_timeout_ms: int = 45_000
    """So long after a worker's death others take its partitions over; brokers allow 6 s and more."""
    share_every_ms: int = 300_000
    """Workers share partitions anew when their load has changed, so long after the last time; 0 for never."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"a destination's name is {self.name!r}: letters, digits, '.', '_' and '-'"
            )
        if self.group_id and not _NAME.fullmatch(self.group_id):  # Topics are called after it.
            raise ConfigurationError(
                f"group_id of {self.name!r} is {self.group_id!r}: letters, digits, '.', '_' and '-'"
            )
        if not self.topic:
            raise ConfigurationError(f"destination {self.name!r} needs a topic")
        if not self.group_id:
            msgspec.structs.force_setattr(self, "group_id", f"forward-{self.name}")
        self._check_url()
        self._check_routes()
        for topic in self.own_topics:
            if len(topic) > TOPIC_LENGTH_MAX:
                raise ConfigurationError(
                    f"destination {self.name!r} needs a topic {topic!r}, longer than"
                    f" {TOPIC_LENGTH_MAX} characters: give a shorter name or group_id"
                )
        if not 0 <= self.delay_ms <= HELD_MS_MAX:
            raise ConfigurationError(f"delay_ms of {self.name!r}: a number from 0 to {HELD_MS_MAX}")
        if self.share_every_ms < 0 or self.drain_timeout_ms < 0:
            raise ConfigurationError(
                f"share_every_ms and drain_timeout_ms of destination {self.name!r} must not be negative"
            )
        if not 0 <= self.rate_max < inf:
            raise ConfigurationError(f"rate_max of destination {self.name!r}: a number, and 0 for no limit")
        for name in (
            "timeout_ms",
            "attempts_max",
            "concurrency_max",
            "window_max",
            "failures_max",
            "session_timeout_ms",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} of destination {self.name!r} has to be at least 1")
        if not self.retry_delays_ms or any(not 0 < each <= DELAY_MS_MAX for each in self.retry_delays_ms):
            raise ConfigurationError(f"retry_delays_ms of {self.name!r}: numbers from 1 to {DELAY_MS_MAX}")
        if list(self.retry_delays_ms) != sorted(set(self.retry_delays_ms)):
            raise ConfigurationError(f"retry_delays_ms of {self.name!r} have to rise")

    def _check_url(self) -> None:
        try:
            parts, is_whole = self.parts, self.parts.hostname and self.parts.port != 0
            (parts.hostname or "").encode("idna")
        except ValueError as error:
            raise ConfigurationError(f"url of destination {self.name!r} is {self.url!r}: {error}") from None
        if parts.scheme not in PORTS or not is_whole:
            raise ConfigurationError(
                f"url of destination {self.name!r} is {self.url!r}: give http://HOST/PATH"
            )
        if self.stream and not self.is_grpc:
            raise ConfigurationError(
                f"stream of destination {self.name!r} needs an address grpc:// or grpcs://"
            )
        if parts.username is not None:
            raise ConfigurationError(f"url of destination {self.name!r} holds a password: use token_file")

    def _check_routes(self) -> None:
        names = [each.name for each in self.route]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"two routes of destination {self.name!r} have the same name")
        for each in self.services.values():
            if each.is_grpc != self.is_grpc:
                raise ConfigurationError(f"routes of {self.name!r} go by HTTP, or all of them by gRPC")

    @property
    def services(self) -> Mapping[str, "Destination"]:
        """Each service that records are pushed to, by its route's name, as a destination without routes.

        "" is the name of the destination's own. Raises: ConfigurationError for a wrong url.
        """
        found = {"": self}
        for each in self.route:
            if each.action is RouteAction.PUSH:
                own = ("url", "ca_file", "concurrency_max", "rate_max", "failures_max")
                changed = {name: value for name in own if (value := getattr(each, name))}
                service = msgspec.structs.replace(self, route=(), **changed)
                service._check_url()
                token_file = each.token_file
                if token_file is None:
                    token_file = self.token_file if service.origin == self.origin else ""
                found[each.name] = msgspec.structs.replace(service, token_file=token_file)
        return found

    @property
    def origin(self) -> tuple[str, str | None, int | None]:
        """The address's scheme, host and port: a token is for one of them."""
        parts = self.parts
        return parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme]

    @property
    def parts(self) -> SplitResult:
        """The address in its parts."""
        return urlsplit(self.url)

    @property
    def is_grpc(self) -> bool:
        """Whether it is pushed to by gRPC."""
        return self.parts.scheme in {"grpc", "grpcs"}

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """One topic for each delay: `<group>__retry-1` and so on."""
        return tuple(f"{self.group_id}__retry-{each + 1}" for each in range(len(self.retry_delays_ms)))

    @property
    def dead_letters_topic(self) -> str:
        """Where records end that were refused, or retried too often."""
        return f"{self.group_id}__dead"

    @property
    def stash_topic(self) -> str:
        """Where records wait that the service put aside."""
        return f"{self.group_id}__stash"

    @property
    def route_topics(self) -> Mapping[str, str]:
        """The topic of each service's route, for its records while it is behind: `<group>__route-<name>`.

        None where there is one service alone, or an order, which a record must not leave.
        """
        names = [each.name for each in self.route if each.action is RouteAction.PUSH]
        if not names or self.order is not Order.NONE:
            return {}
        topic = f"{self.group_id}__route"
        return {"": topic, **{each: f"{topic}-{each}" for each in names}}

    @property
    def own_topics(self) -> tuple[str, ...]:
        """All topics that its workers write to."""
        return (*self.read_topics, self.dead_letters_topic, self.stash_topic)

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics of its own that its workers read."""
        return (*self.retry_topics, *self.route_topics.values())

    def is_left_over(self, topic: str) -> bool:
        """Whether a topic is that of a route or delay that it had before: records may be left there."""
        own = f"{self.group_id}__"
        if not topic.startswith(own) or topic in self.read_topics:
            return False
        name = topic.removeprefix(own)
        is_of_another_group = "__" in name and _OWN_TOPIC.fullmatch(name.rpartition("__")[2]) is not None
        is_read = name == "route" or re.fullmatch("route-.+|retry-[0-9]+", name) is not None
        return is_read and not is_of_another_group

    def retry_topic(self, attempts: int, delay_ms: int | None) -> tuple[str, int]:
        """Return the topic of a record that was pushed so often, and how long it waits.

        Without a word of the service's each attempt waits in the next topic. With a delay that it asked for a
        record goes to the first topic that holds records so long: nobody there waits longer for others.
        """
        if delay_ms is None:
            tier = min(attempts, len(self.retry_delays_ms)) - 1
            return self.retry_topics[tier], self.retry_delays_ms[tier]
        for topic, longest_ms in zip(self.retry_topics, self.retry_delays_ms, strict=True):
            if delay_ms <= longest_ms:
                return topic, delay_ms
        return self.retry_topics[-1], delay_ms


class ForwardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `kohort forward` reads from its file."""

    bootstrap_servers: str = "localhost:9092"
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Whom records may be pushed to: names as they stand in the addresses, or networks as 10.0.0.0/8."""
    forward: tuple[Destination, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.forward]
        groups = [each.group_id for each in self.forward]
        for what, found in (("name", names), ("group_id, by which their retry topics are called", groups)):
            twice = [text for text, count in Counter(found).items() if count > 1]
            if twice:
                raise ConfigurationError(f"two destinations have the same {what}: {twice[0]!r}")
        for each in self.forward:
            for service in each.services.values():
                host = service.parts.hostname or ""
                if not any(_allows(entry, host) for entry in self.allowed_hosts):
                    raise ConfigurationError(
                        f"destination {each.name!r} is at {host}, which is not one of allowed_hosts"
                    )

    def find(self, name: str) -> Destination:
        """Return the destination of that name. Raises: ConfigurationError."""
        for each in self.forward:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.forward)
        raise ConfigurationError(f"there is no destination {name!r}: {known or 'none is set'}")


def load_settings(path: Path, environment: Mapping[str, str] = os.environ) -> ForwardSettings:
    """Return what a file says; KOHORT_BOOTSTRAP_SERVERS stands in for what it leaves out.

    Raises: ConfigurationError with the file's name; OSError.
    """
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        if "bootstrap_servers" not in found and environment.get("KOHORT_BOOTSTRAP_SERVERS"):
            found["bootstrap_servers"] = environment["KOHORT_BOOTSTRAP_SERVERS"]
        return msgspec.convert(found, ForwardSettings)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _allows(entry: str, host: str) -> bool:
    if "/" not in entry:
        return entry.lower() == host.lower()
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry)
    except ValueError:
        return False
