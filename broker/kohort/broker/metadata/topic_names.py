"""Which topic names there may be. Source: org.apache.kafka.common.internals.Topic."""

import re
from collections.abc import Iterable

from kohort.protocol.errors import ApiError, ErrorCode

MAX_NAME_LENGTH = 249  # A folder's name has a hyphen and the partition as well; most disks take 255.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Return if a topic may have this name. Raises: ApiError INVALID_TOPIC_EXCEPTION."""
    if not name:
        raise invalid("a topic's name can't be empty")
    if name in (".", ".."):
        raise invalid(f"a topic can't be named {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise invalid(f"a topic's name has at most {MAX_NAME_LENGTH} characters, this one {len(name)}")
    if _LEGAL.fullmatch(name) is None:
        raise invalid(f"{name!r} has characters other than letters and digits of ASCII, '.', '_' and '-'")


def is_valid_topic_name(name: str) -> bool:
    """Return whether a topic may have this name."""
    return name not in ("", ".", "..") and len(name) <= MAX_NAME_LENGTH and bool(_LEGAL.fullmatch(name))


def metric_name(topic: str) -> str:
    """Return the topic's name as metrics write it: two topics never share one."""
    return topic.replace(".", "_")


class MetricNames:
    """The names that are taken for metrics, by topic: they have '_' where a topic's name has '.'.

    So `a.b` and `a_b` can't both be.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics: dict[str, str] = {}
        for name in topics:
            self.take(name)

    def colliding(self, name: str) -> str | None:
        """Return the topic that would give the same metric names as this one, or None."""
        other = self._topics.get(metric_name(name))
        return None if other == name else other

    def take(self, name: str) -> None:
        """Note that there is, or will be, a topic of this name."""
        self._topics.setdefault(metric_name(name), name)


def invalid(message: str) -> ApiError:
    """Return the error for a name that can't be."""
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
