"""What groups go through, in words, for the story of a simulated test."""

from collections.abc import Callable

from kohort.broker.explain.events import RebalanceCompleted
from kohort.broker.explain.story import story
from kohort.broker.explain.words import member_name
from kohort.broker.group.events import (
    Event,
    GroupDeleted,
    MemberEvent,
    MemberExpired,
    MemberFenced,
    MemberLeft,
    MemberRefused,
    OffsetsRemoved,
)


class GroupStory:
    """What the groups of a broker went through. Members have the names of the processes that they live in."""

    def __init__(self, host_name: Callable[[str], str]) -> None:
        """`host_name` returns the name of a host with this address."""
        self.lines: list[tuple[float, str]] = []
        """Seconds since the start of the run, and words."""
        self._host_name = host_name
        self._names: dict[str, str] = {}

    def note(self, seconds: float, event: Event) -> None:
        """Add an event."""
        if isinstance(event, MemberEvent) and event.client_host:
            short = member_name(event.member_id)
            self._names[short] = f"{self._host_name(event.client_host.lstrip('/'))} ({short})"
        for line in words_of(event):
            self.lines.append((seconds, self._with_names(line)))

    def _with_names(self, line: str) -> str:
        for short, name in self._names.items():
            if short in line:
                line = line.replace(short, name)
        return line


def words_of(event: Event) -> list[str]:
    """Return the lines that describe an event. Some events have none."""
    group = f"group {event.group_id}:"
    match event:
        case RebalanceCompleted():
            first, *others = story(event.report, ())
            return [f"{group} {first.partition('  ')[2]}", *others]
        case MemberExpired():
            name, silent_seconds = member_name(event.member_id), event.after_ms / 1000
            return [f"{group} {name} has sent no heartbeat for {silent_seconds:.1f} s"]
        case MemberFenced():
            names = member_name(event.member_id), member_name(event.by_member_id)
            return [f"{group} {names[0]} is fenced by {names[1]}"]
        case MemberLeft():
            return [f"{group} {member_name(event.member_id)} leaves: {event.reason or 'no reason given'}"]
        case MemberRefused():
            return [f"{group} {member_name(event.member_id) or 'a member'} is refused: {event.error}"]
        case GroupDeleted() | OffsetsRemoved():
            return [f"{group} {type(event).__name__}"]
        case _:
            return []
