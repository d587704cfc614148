"""What of a job's options is wrong, found before Spark starts, which takes long and says it at length."""

from collections.abc import Iterable
from pathlib import Path

from kohort.cli.options import API_TIMEOUT_MS
from kohort.pipeline.errors import OptionError
from kohort.pipeline.options import parse_offset_spec, parse_time_ms
from kohort.pipeline.servers import Servers

GROUP, AT = "group:", "@"
FILE = "file://"


def require_topics(cluster: Servers, topics: Iterable[str]) -> None:
    """Return if the cluster has these topics. Raises: OptionError, KohortError."""
    with cluster.admin(default_api_timeout_ms=API_TIMEOUT_MS, request_timeout_ms=API_TIMEOUT_MS) as admin:
        there = set(admin.list_topics(include_internal=True))
    missing = [each for each in topics if each not in there]
    if missing:
        raise OptionError(f"there is no topic {', '.join(map(repr, missing))}")


def require_place(option: str, given: str) -> None:
    """Return if it is a place in topics. Raises: OptionError."""
    if given.startswith(GROUP) and AT in given:
        parse_time_ms(option, given.rpartition(AT)[2])
    else:
        parse_offset_spec(option, given)


def require_new_folder(option: str, given: str) -> None:
    """Return if there is no such folder; of one elsewhere than here Spark says it. Raises: OptionError."""
    local = given.removeprefix(FILE)
    if "://" not in local and Path(local).exists():
        raise OptionError(f"{option}: {given} is there already; give a folder that is new")
