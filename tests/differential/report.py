"""What a run has seen, as counts, as text, and as tables in docs/compatibility.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from docs.tables import table, written

from tests.differential.allowed import ALL
from tests.differential.duel import Outcome, Verdict

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
STEPS_SHOWN = 30  # Lines of a transcript before the difference.


@dataclass(frozen=True)
class Seen:
    """The counts of one run; a script that time or a die spoiled to the end is in `undecided`.

    Those of `alone` were spoiled beside others, and played once more without them.
    """

    scripts: int
    requests: int
    answers: int
    different: int
    undecided: tuple[int, ...]
    alone: tuple[int, ...]
    attempts: int
    allowed: Counter[str]


def seen(outcomes: Iterable[Outcome]) -> Seen:
    """Return what these scripts add up to."""
    every = list(outcomes)
    return Seen(
        scripts=len(every),
        requests=sum(each.steps for each in every),
        answers=sum(each.answers for each in every),
        different=sum(each.verdict is Verdict.DIFFERENT for each in every),
        undecided=tuple(each.seed for each in every if each.is_undecided),
        alone=tuple(each.seed for each in every if each.is_played_alone),
        attempts=sum(each.attempts for each in every),
        allowed=Counter(known.name for each in every for known in each.allowed),
    )


def story(outcome: Outcome) -> str:
    """Return how a script came to its difference, and how to see it again."""
    lines = [
        f"script {outcome.seed} (python -m tests.differential.run --scripts 1 --first {outcome.seed})",
        *outcome.transcript[-STEPS_SHOWN:],
    ]
    for each in outcome.differences:
        lines += [f"  {each.what}", f"    kohort {each.ours}", f"    Kafka  {each.theirs}"]
    return "\n".join(lines) + "\n"


def summary(found: Seen, passed_s: float) -> str:
    """Return the counts in a few lines."""
    lines = [
        f"{found.scripts} scripts, {found.requests} steps, {found.answers} answers compared, "
        f"{found.different} scripts with a difference that is not listed, "
        f"{found.attempts - found.scripts} played anew, {passed_s:.0f} s",
        *(f"{count:6} x {name}" for name, count in found.allowed.most_common()),
    ]
    if found.alone:
        lines.append(
            f"played alone, since they were undecided beside others: {', '.join(map(str, found.alone))}"
        )
    if found.undecided:
        lines.append(f"undecided: {', '.join(map(str, found.undecided))}")
    return "\n".join(lines) + "\n"


def tables(found: Seen) -> dict[str, str]:
    """Return the tables of docs/compatibility.md by name."""
    return {
        "differential run": table(
            ("scripts", "steps", "answers compared", "differences that are not listed"),
            [[str(each) for each in (found.scripts, found.requests, found.answers, found.different)]],
        ),
        "differences": table(
            ("when", "kohort", "Apache Kafka 4.3.1", "because", "met"),
            [
                [each.name, each.kohort, each.kafka, each.reason, str(found.allowed[each.name])]
                for each in ALL
            ],
        ),
    }


def write(found: Seen) -> None:
    """Put the counts into docs/compatibility.md."""
    PAGE.write_text(written(PAGE, tables(found)), encoding="utf-8")
