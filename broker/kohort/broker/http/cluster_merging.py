"""Merges the answers of several brokers into one. Pure; it may take long, and runs in a thread."""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from kohort.broker.http.live.access import first_uses
from kohort.broker.http.live.groups import GROUPS_SHOWN
from kohort.broker.http.live.history import added
from kohort.broker.http.live.messages import Question, chosen, told_of
from kohort.broker.http.live.readers import first_readers
from kohort.broker.http.live.transactions import first_transactions
from kohort.broker.http.questions import Answer

Told = Mapping[int, Answer]
Silent = Mapping[int, str]
Json = dict[str, Any]

_ORDERS: dict[str, Callable[[Json], Any]] = {
    "lag": lambda each: (-each["lag"], each["group_id"]),
    "name": itemgetter("group_id"),
    "members": lambda each: (-each["members"], each["group_id"]),
    "state": itemgetter("state", "group_id"),
}
"""The same orders as on one broker."""


def unanswered(silent: Silent) -> list[Json]:
    """Return the brokers that did not answer, with the reasons."""
    return [{"broker": node_id, "reason": why} for node_id, why in silent.items()]


def groups(told: Told, silent: Silent, without_coordinator: Iterable[int]) -> Json:
    """Return the groups of all brokers in short, and the partitions whose groups are unknown."""
    answers = _answers(told)
    found = [group for each in answers.values() for group in each["groups"]]
    return {
        "groups": sorted(found, key=itemgetter("group_id")),
        "loading": sorted(index for each in answers.values() for index in each["loading"]),
        "without_coordinator": list(without_coordinator),
        "unanswered": unanswered(silent),
    }


def share_group(told: Told, silent: Silent) -> Json:
    """Return a share group as its coordinator has it, with the partitions that all brokers lead."""
    answers = _answers(told)
    first = next(
        (each for each in answers.values() if each["group"] is not None), next(iter(answers.values()))
    )
    partitions = [partition for each in answers.values() for partition in each["partitions"]]
    return {
        **first,
        "partitions": sorted(partitions, key=itemgetter("topic", "partition")),
        "brokers": list(answers),
        "unanswered": unanswered(silent),
    }


def live_groups(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the first groups of all brokers, in the order asked for."""
    answers = _answers(told).values()
    states: dict[str, int] = {}
    for each in answers:
        for state, count in each["by_state"].items():
            states[state] = states.get(state, 0) + count
    rows = [group for each in answers for group in each["groups"]]
    rows.sort(key=_ORDERS.get(parameters.get("order", "lag"), _ORDERS["lag"]))
    return {
        **{name: sum(each[name] for each in answers) for name in ("total", "matching", "loading")},
        "by_state": states,
        "groups": rows[:GROUPS_SHOWN],
        "unanswered": unanswered(silent),
    }


def live_topics(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the topics with what the leaders of their partitions hold."""
    answers = _answers(told)
    rows = {each["name"]: dict(each) for each in answers[own]["topics"]}
    for node_id, answer in answers.items():
        for each in answer["topics"] if node_id != own else ():
            row = rows.get(each["name"])
            if row is not None:
                for name in ("records", "size_bytes", "offline"):
                    row[name] += each[name]
    return {**answers[own], "topics": list(rows.values()), "unanswered": unanswered(silent)}


def live_topic(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return a topic, with the state of each partition from its leader."""
    answers = _answers(told)
    by_leader = {
        (node_id, partition["index"]): partition
        for node_id, each in answers.items()
        for partition in each["partitions"]
    }
    partitions = [
        {**each, **_log_of(by_leader.get((each["leader"], each["index"]), each))}
        for each in answers[own]["partitions"]
    ]
    with_readers = [each for each in answers.values() if "readers" in each]  # Earlier versions have none.
    readers = [reader for each in with_readers for reader in each["readers"]]
    shown = first_readers(readers)
    left_out = len(readers) - len(shown) + sum(each["readers_left_out"] for each in with_readers)
    return {
        **answers[own],
        "partitions": partitions,
        "readers": shown,
        "readers_left_out": left_out,
        "unanswered": unanswered(silent),
    }


def live_history(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the samples of a topic, added up over the leaders of its partitions."""
    answers = _answers(told)
    return {**answers[own], "samples": added(each["samples"] for each in answers.values())}


def live_transactions(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the transactional ids of all coordinators, in the form of one coordinator's answer."""
    answers = [each for each in _answers(told).values() if "transactions" in each]
    rows = [row for each in answers for row in each["transactions"]]
    return {
        **_answers(told)[own],
        **{name: sum(each[name] for each in answers) for name in ("total", "open")},
        "loading": any(each["loading"] for each in answers),
        "transactions": first_transactions(rows),
        "unanswered": unanswered(silent),
    }


def live_access(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the entries and quotas of the cluster, and how much clients use of their quotas on each broker.

    If this broker may not show them, nothing from another is shown either.
    """
    answers = _answers(told)
    if answers[own]["is_hidden"]:
        return answers[own]
    uses = [use for each in answers.values() for use in each["uses"]]
    return {**answers[own], "uses": first_uses(uses), "unanswered": unanswered(silent)}


def live_messages(told: Told, silent: Silent, asked: Question) -> Json:
    """Return the records that the leaders of all partitions have found, as one answer."""
    answers = _answers(told).values()
    kept, left_out = chosen(
        [each["records"] for each in answers],
        asked.records_max,
        is_last=asked.is_newest,
        time_of=itemgetter("timestamp_ms"),
    )
    partitions = {each["partition"]: each for answer in answers for each in answer["partitions"]}
    for record in left_out:
        partition = partitions[record["partition"]]
        partition["next_offset"] = min(partition["next_offset"], record["offset"])
    not_searched = sorted({index for each in answers for index in each["not_searched"]})
    found = dict(told_of(list(partitions.values()), kept, not_searched))
    waiting = [each for each in (asked.positions or {}).items() if each[0] not in partitions]
    if waiting:  # Partitions whose leader does not answer now.
        found["positions"] = ",".join(filter(None, (found["positions"], *(f"{i}:{at}" for i, at in waiting))))
    return {**found, "unanswered": unanswered(silent)}


def _log_of(partition: Json) -> Json:
    names = ("log_start_offset", "high_watermark", "log_end_offset", "size_bytes", "offline")
    return {name: partition[name] for name in names if name in partition}


def live_health(told: Told, silent: Silent, own: int, parameters: Mapping[str, str]) -> Json:
    """Return the health of the broker `id`, or of this one, and in short of each broker in the list."""
    answers = _answers(told)
    wanted = parameters.get("id") or str(own)
    chosen = next((each for node_id, each in answers.items() if str(node_id) == wanted), None)
    if chosen is None:
        return {"error": f"broker {wanted} is not in the cluster, or does not answer"}
    brokers = [
        {
            **each,
            "reasons": answers[each["node_id"]]["reasons"] if each["node_id"] in answers else None,
            "silent": silent.get(each["node_id"]),
            "facts": _facts(answers.get(each["node_id"])),
        }
        for each in answers[own]["brokers"]
    ]
    return {**chosen, "brokers": brokers, "unanswered": unanswered(silent)}


def _facts(answer: Json | None) -> Json | None:
    """Return the facts that only the broker itself knows, for its row in the list."""
    names = ("version", "connections", "size_bytes", "disk", "offline_logs")
    return None if answer is None else {each: answer[each] for each in names if each in answer}


def _answers(told: Told) -> dict[int, Json]:
    """Return the answers with status 200."""
    return {node_id: each.json() for node_id, each in told.items() if each.status == 200}
