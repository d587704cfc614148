"""Writes docs/requirements.md: what coordinator and clients must show, and which tests show it.

python docs/requirements.py [--check]     with --check nothing is written; the status is 1 where it is old

A test shows a requirement by a marker, `@pytest.mark.requirement("R12")`; a scenario by naming it.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.rooms import ROOMS  # noqa: E402

PAGE = ROOT / "docs" / "requirements.md"
MARKER = "requirement"
HEAD = """# What coordinator and clients must show, and the tests that show it

Written by `make docs` from the tests: a test names what it shows with `@pytest.mark.requirement("R12")`, a
conversation in [tests/scenarios](../tests/scenarios) with the number in its text.
"""
REQUIREMENTS = {
    "R1": "FindCoordinator names the leader of a group's partition of `__consumer_offsets`, by Java's hash.",
    "R2": "The first member leads and alone hears of the members; followers wait for its SyncGroup.",
    "R3": "A member id is client id, dash and UUID; from JoinGroup 4 it is given first, and expires unused.",
    "R4": "A new group waits the initial delay, longer while members come, never past the rebalance timeout.",
    "R5": "Members vote among the protocols that all speak; a group moves live from one assignor to another.",
    "R6": "Session and rebalance timeouts have Kafka's defaults and bounds; a group has a largest size.",
    "R7": "Groups are Empty, PreparingRebalance, CompletingRebalance, Stable or Dead, and go Kafka's ways.",
    "R8": "Members that join, leave, expire or subscribe anew, and changed topics, rebalance; it says why.",
    "R9": "Who is late, old, unknown or fenced is told so with Kafka's code, before anything has changed.",
    "R10": "Who does not rejoin or sync in time is out; where the leader vanishes the group starts over.",
    "R11": "A clean close leaves at once, alone or several together, and its reason is kept.",
    "R12": "A static member comes back to its assignment without a rebalance, and fences a second claimant.",
    "R13": "Who does not poll leaves and says so; a static member falls silent.",
    "R14": "Range, round robin, sticky and cooperative share out as Kafka's do, a thousand members quickly.",
    "R15": "Commits are kept in Kafka's records; the newest stands and outlives what kills the broker.",
    "R16": "Simple commits to an empty group; offsets of one, several or all partitions, of several groups.",
    "R17": "Without a commit, auto.offset.reset decides.",
    "R18": "Offsets expire with their group's silence, and go with their topic.",
    "R19": "A reader sees nothing past the high watermark.",
    "R20": "While a shard loads it says so and the others serve; members then go on with their generation.",
    "R22": "A consumer has Kafka's interface: subscriptions, positions, pauses, commits, wakeup and close.",
    "R23": "Listeners hear of partitions before they go, when they come, and when they are lost.",
    "R24": "Clients take Kafka's settings with Kafka's defaults; an unknown name suggests the nearest one.",
    "R25": "A producer batches, partitions as Java does, keeps order, and says what became of each record.",
    "R26": "At most once and at least once hold while readers and broker are killed.",
    "R27": "Heartbeats outlive a busy thread; who is thrown out hears how long each phase took.",
    "R28": "Groups are reset in all of Kafka's ways, dry unless told otherwise, and left alone while active.",
    "R32": "Share groups hand records out one by one: locks, delivery counts, durable acknowledgements.",
}


def marked(file: Path) -> Iterator[tuple[str, str]]:
    """Give the requirements that this file's tests are marked with, each with the test's name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(f"mark.{MARKER}"):
                    for argument in decorator.args:
                        yield str(ast.literal_eval(argument)), node.name


def evidence() -> dict[str, list[str]]:
    """Return links to the tests and scenarios of each requirement, in the order of their paths."""
    found: dict[str, list[str]] = defaultdict(list)
    files = sorted(file for room in (*ROOMS, "tests") for file in (ROOT / room).rglob("test_*.py"))
    for file in files:
        for name, test in marked(file):
            found[name].append(f"[{words(test)}](../{file.relative_to(ROOT)})")
    for file in sorted((ROOT / "tests" / "scenarios").glob("*.txt")):
        for name in sorted(set(re.findall(r"\bR\d+\b", file.read_text(encoding="utf-8")))):
            found[name].append(f"[{words(file.stem)}](../{file.relative_to(ROOT)})")
    return found


def words(name: str) -> str:
    """Return a test's name as the sentence that it is."""
    return name.removeprefix("test_").replace("_", " ")


def page(found: dict[str, list[str]]) -> str:
    """Return the text of docs/requirements.md. Raises: ValueError for a number that means nothing."""
    unknown = [name for name in found if name not in REQUIREMENTS]
    if unknown:
        raise ValueError(f"no such requirement: {', '.join(sorted(unknown))}")
    parts = [HEAD]
    for name, meaning in REQUIREMENTS.items():
        shown = "\n".join(f"- {each}" for each in found.get(name, ["*nothing yet*"]))
        parts.append(f"## {name}\n\n{meaning}\n\n{shown}\n")
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Write or check the page, and return the exit status; 1 as well where a requirement has no test."""
    found = evidence()
    bare = [name for name in REQUIREMENTS if name not in found]
    for name in bare:
        sys.stderr.write(f"{name} has no test\n")
    text = page(found)
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{PAGE.name} is not what the tests say: run make docs\n")
        return 1
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
