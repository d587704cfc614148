"""Answers to a share group's members: what is compared of them, and what they say."""

from __future__ import annotations

from collections.abc import Collection

from tests.differential.told import Rendered, TooSlow

ANY = "whatever it is"


def told_of(answer: Rendered, said: Collection[str]) -> Rendered:
    """Return a fetch's answer without partitions of which it says nothing: it may name them or not."""
    for topic in answer["responses"]:
        topic["partitions"] = [
            each
            for each in topic["partitions"]
            if topic["topic_id"] in said or each["error_code"] or each["acquired_records"]
        ]
    answer["responses"] = [each for each in answer["responses"] if each["partitions"]]
    return answer


def check_given(answer: Rendered) -> None:
    """Pass a fetch that has got something, as it should have. Raises: TooSlow."""
    if not any(each["acquired_records"] or each["error_code"] for _, each in partitions_of(answer)):
        raise TooSlow


def is_assigned(answer: Rendered) -> bool:
    """Return whether a member has something: the state of partitions is made beside the requests."""
    assignment = answer["assignment"]
    return bool(answer["error_code"] or assignment == ANY or (assignment or {}).get("topic_partitions"))


def without_places(answer: Rendered) -> Rendered:
    """Return a heartbeat's answer or a description without partitions: who has which, and who hears of it."""
    for group in answer.get("groups", ()):
        for member in group["members"]:
            without_places(member)
    if "assignment" in answer:
        answer["assignment"] = ANY
    return answer


def partitions_of(answer: Rendered) -> list[tuple[str, Rendered]]:
    """Return each partition of an answer, with its topic."""
    return [(topic["topic_id"], each) for topic in answer["responses"] for each in topic["partitions"]]
