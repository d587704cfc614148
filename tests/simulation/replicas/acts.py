"""How often what happens, in either act of a seed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Act:
    """What happens how often, for a part of a seed's steps."""

    crashes: float
    """How often the broker dies in a step."""
    delicate_crashes: float
    """And for some steps behind a cut, and behind a change of settings."""
    step_ms: int
    """A step takes less time."""
    waiting_steps: int
    """For so many steps a follower may wait for a sync."""
    bursts: float = 0
    """How often everything that waits gets on, all of it in one step."""
    ordeals: float = 0
    """How often a log goes through what has the journal know it, and is cut then."""
    commits: float = 1
    """How many fetches let the high watermark go on, of all that could."""
    elections: float = 2
    moves: float = 1
    returns: float = 0
    """How often all replicas that have moved away come back."""
    topics_made_again: float = 0.3
    failed_reads: float = 1
    failed_reads_of_all: float = 0.7
    failed_disks: float = 1
    settings: float = 2
    repairs: float = 2
    is_delicate_behind_cuts: bool = False
    """Whether it is delicate as well when a leader first hears of records that came in place of cut ones."""


STORM = Act(crashes=0.006, delicate_crashes=0.05, step_ms=20, waiting_steps=120)
"""Something fails at every turn: most logs are offline, or have just been opened."""
CALM = Act(
    crashes=0.002,
    delicate_crashes=0.03,
    step_ms=60,
    waiting_steps=40,
    bursts=30,
    ordeals=6,
    commits=0.03,
    elections=1,
    moves=0.4,
    returns=2,
    topics_made_again=0.05,
    failed_reads=0.3,
    failed_reads_of_all=0.3,
    failed_disks=0.1,
    settings=1.5,
    is_delicate_behind_cuts=True,
)
"""Logs get long between two failures: some are lax for a while, and the journal begins again many times."""
