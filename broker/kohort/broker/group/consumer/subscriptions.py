"""The members' topics: by name, by a regular expression, and whether these have changed."""

from collections.abc import Callable, Iterable, Mapping

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember, Resolved
from kohort.broker.group.consumer.patterns import Pattern, TooMuchWork
from kohort.broker.group.metadata import Metadata
from kohort.protocol.errors import ApiError, ErrorCode

REGEX_INTERVAL_MS = 10_000
"""How long a change of the metadata may wait until expressions are resolved again, as in Kafka."""


def compiled(regex: str) -> Pattern:
    """Return the expression. Raises: ApiError INVALID_REGULAR_EXPRESSION."""
    try:
        return Pattern(regex)
    except ValueError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def resolve(regex: str, metadata: Metadata, now_ms: int, may_describe: Callable[[str], bool]) -> Resolved:
    """Return the topics whose names match; what brokers keep for themselves is passed over.

    So are topics that the requesting member may not describe: it acts for its group, as in Kafka. An
    expression that would block the loop matches nothing.
    """
    pattern = compiled(regex)
    topics = metadata.topics.items()
    names = (name for name, topic in topics if not topic.is_internal and may_describe(name))
    try:
        found = frozenset(filter(pattern.matches, names))
    except TooMuchWork:
        found = frozenset()
    return Resolved(found, metadata.version, now_ms)


def resolved_anew(
    group: ConsumerGroup,
    wanted: Iterable[str],
    metadata: Metadata,
    now_ms: int,
    refresh_ms: int,
    *,
    may_describe: Callable[[str], bool],
) -> dict[str, Resolved]:
    """Return those of `wanted` that are resolved now: new ones, and all after a change or a while."""
    found: dict[str, Resolved] = {}
    for regex in wanted:
        known = group.regexes.get(regex)
        if known is not None:
            age_ms = now_ms - known.timestamp_ms
            is_fresh = known.version == metadata.version and age_ms < refresh_ms
            seen_ms = group.regexes_seen_ms
            if is_fresh or (seen_ms is not None and now_ms - seen_ms < REGEX_INTERVAL_MS):
                continue
        found[regex] = resolve(regex, metadata, now_ms, may_describe)
    return found


def topics_of(member: ConsumerMember, regexes: Mapping[str, Resolved]) -> frozenset[str]:
    """Return the names of the topics that the member reads, whether they exist or not."""
    names = frozenset(member.topic_names)
    resolved = regexes.get(member.topic_regex) if member.topic_regex else None
    return names if resolved is None else names | resolved.topics
