"""The assignors hand out what those of Kafka's Java client do, whatever the group has been through."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from kohort.client.assignors import Subscription, TopicCounts
from kohort.client.assignors.sticky import sticky_user_data
from tests.interop.assignor_cases import NAMES, Case, random_case
from tests.interop.kafka_tools import MissingTool, java_command

Results = list[tuple[Case, str, dict[str, str]]]
RANDOM_CASES = 1_000
JAVA_TIMEOUT_S = 120


def java_hands_out(cases: Sequence[tuple[Case, str]]) -> list[dict[str, str]]:
    """Return what Java gives each member in each case, all from one run of it."""
    try:
        command = java_command("clients", "Assign")
    except MissingTool as missing:
        pytest.skip(str(missing))
    typed = "\n".join(line for case, assignor in cases for line in case.lines(assignor))
    done = subprocess.run(
        command, input=typed, capture_output=True, encoding="utf-8", timeout=JAVA_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    blocks = done.stdout.removesuffix("\n").split("\n\n")[: len(cases)]
    return [dict(line.split("\t") for line in block.splitlines()) for block in blocks]


def plain(name: str, wishes: dict[str, tuple[str, ...]], counts: dict[str, int]) -> Case:
    return Case(
        name, {member: Subscription(topics) for member, topics in wishes.items()}, TopicCounts(counts)
    )


THREE_WISHES = {"C0": ("T1",), "C1": ("T1", "T2"), "C2": ("T1", "T2", "T3")}
TOLD = [
    plain("five members on four partitions", {f"C{each}": ("T",) for each in range(5)}, {"T": 4}),
    plain("ten partitions for three", {f"C{each}": ("T",) for each in range(3)}, {"T": 10}),
    plain("two topics kept together", dict.fromkeys(("C0", "C1"), ("T1", "T2")), {"T1": 4, "T2": 4}),
    plain("four and two, or three and three", dict.fromkeys(("C0", "C1"), ("T1", "T2")), {"T1": 3, "T2": 3}),
    plain("different wishes", THREE_WISHES, {"T1": 1, "T2": 2, "T3": 3}),
    plain("a topic that does not exist", {"C0": ("T", "gone"), "C1": ("gone",)}, {"T": 2}),
    Case(
        "a newcomer in a stable group",
        {
            "C0": Subscription(("T",), {"T": (0, 1, 2)}, 4, sticky_user_data({"T": (0, 1, 2)}, 4)),
            "C1": Subscription(("T",), {"T": (3, 4, 5)}, 4, sticky_user_data({"T": (3, 4, 5)}, 4)),
            "C2": Subscription(("T",)),
        },
        TopicCounts({"T": 6}),
    ),
    Case(
        "two who claim the same",
        {
            "C0": Subscription(("T",), {"T": (0, 1)}, 4, sticky_user_data({"T": (0, 1)}, 4)),
            "C1": Subscription(("T",), {"T": (1, 2)}, 4, sticky_user_data({"T": (1, 2)}, 4)),
        },
        TopicCounts({"T": 4}),
    ),
]


@pytest.mark.requirement("R14")
def test_the_named_situations_end_as_with_java() -> None:
    cases = [(case, assignor) for case in TOLD for assignor in NAMES]
    for (case, assignor), expected in zip(cases, java_hands_out(cases), strict=True):
        assert case.ours(assignor) == expected, f"{case.name}, {assignor}"


@pytest.fixture(scope="module")
def random_results() -> Results:
    """A thousand random groups for each assignor, with what Java makes of them."""
    cases = [(random_case(seed, assignor), assignor) for seed in range(RANDOM_CASES) for assignor in NAMES]
    expected = java_hands_out(cases)
    return [(case, assignor, each) for (case, assignor), each in zip(cases, expected, strict=True)]


def goes_astray(case: Case, given: dict[str, str]) -> bool:
    """Whether Java threw, or gave a member partitions of a topic that it does not want.

    It does if the last owner of a partition, by the word of an older generation, has left its topic.
    """
    return "failed" in given or any(
        each.partition(":")[0] not in case.subscriptions[member_id].topics
        for member_id, partitions in given.items()
        for each in filter(None, partitions.split(";"))
    )


@pytest.mark.requirement("R14")
def test_a_thousand_random_groups_end_as_with_java(random_results: Results) -> None:
    different = [
        case.name
        for case, assignor, given in random_results
        if not goes_astray(case, given) and case.ours(assignor) != given
    ]
    assert not different, f"{len(different)} of {len(random_results)}: {different[:10]}"


@pytest.mark.requirement("R14")
def test_partitions_that_java_leaves_unassigned_go_to_a_subscriber(random_results: Results) -> None:
    astray = [(case, assignor) for case, assignor, given in random_results if goes_astray(case, given)]
    assert 0 < len(astray) < len(random_results) / 50
    for case, assignor in astray:
        assert not goes_astray(case, case.ours(assignor)), case.name
