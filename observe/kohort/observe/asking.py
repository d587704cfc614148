"""Looks at the cluster again and again, and describes groups where their records may not be read."""

import logging
import time
from collections.abc import Mapping
from threading import Event

from kohort.client import KohortError
from kohort.observe.cluster import GROUPS_TOPIC, TRANSACTIONS_TOPIC, ClusterQuestions
from kohort.observe.described import take_description, take_gone, take_offsets, take_share_offsets
from kohort.observe.kinds import SHARE
from kohort.observe.pace import Limits, Pace, Stopped
from kohort.observe.watched import Watched

log = logging.getLogger(__name__)

SETTINGS_SECONDS = 600.0
ASKING = "asking"
STABLE_LOOKS = 6
"""One look in this number asks for the last stable offsets."""


class Asker:
    """Asks one cluster in the thread that calls `run`."""

    def __init__(
        self,
        watched: Watched,
        questions: ClusterQuestions,
        pace: Pace,
        limits: Limits,
        stopping: Event,
    ) -> None:
        self._watched = watched
        self._questions = questions
        self._pace = pace
        self._limits = limits
        self._stopping = stopping
        self._next_settings = 0.0
        self._last_group = self._last_share_group = self._last_setting = ""
        self._looks = 0

    def run(self) -> None:
        """Look at each interval until the observer stops."""
        status = self._watched.status
        while not self._stopping.wait(self._limits.interval_seconds):
            try:
                self.ask()
            except Stopped:
                return
            except KohortError as error:
                status.note(ASKING, f"the cluster does not answer: {error}")
                log.warning("the cluster does not answer: %s", error)

    def ask(self) -> None:
        """Look once. Raises: KohortError, Stopped."""
        watched, questions, status = self._watched, self._questions, self._watched.status
        seen = questions.look(watched.look)
        if time.monotonic() >= self._next_settings:
            self._next_settings = time.monotonic() + SETTINGS_SECONDS
            questions.settings(seen.look.brokers, watched.facts)
        watched.note(seen)
        ends = questions.ends(watched.places(), seen.leaders)
        watched.note_ends(ends, watched.now_ms())
        self._looks += 1
        if self._looks % STABLE_LOOKS == 0 and TRANSACTIONS_TOPIC in seen.look.partition_counts:
            self._ask_transactions(seen.leaders)
        self._ask_group_settings()
        if status.reads_records:
            self._ask_share_groups()
        else:
            self._describe()
        status.looked_ms = seen.look.at_ms
        status.calls = self._pace.calls
        status.refused = dict(questions.refused)
        status.note(ASKING)

    def _ask_transactions(self, leaders: Mapping[tuple[str, int], int]) -> None:
        """Ask for last stable offsets, and for the transactions that hold those that do not move."""
        watched, questions = self._watched, self._questions
        with watched.lock:  # While groups are read again, they seem to read nothing.
            knows_all_groups = watched.facts.knows_all_groups
            places = [each for each in watched.places() if each[0] != GROUPS_TOPIC]
        stable = questions.ends(places, leaders, committed_only=True)
        standing = watched.note_stable(stable, frozenset(places) if knows_all_groups else None)
        if not standing:
            return
        opened = questions.open_transactions(leaders)
        # A transaction that ended before the coordinators were asked holds nothing any more.
        now = questions.ends([each[:2] for each in standing], leaders, committed_only=True)
        standing = [
            each
            for each in standing
            if now.get(each.topic, {}).get(each.partition, each.last_stable_offset) == each.last_stable_offset
        ]
        watched.tell_standing(standing, opened)

    def _describe(self) -> None:
        """Take the groups' descriptions: their records may not be read."""
        watched, questions = self._watched, self._questions
        there: list[str] = []
        for described in questions.groups(tuple(watched.records.groups)):
            there += (each.group_id for each in described.groups)
            with watched.lock:
                if watched.status.reads_records:
                    return  # The right is there now.
                for each in described.groups:
                    take_description(watched.records.group(each.group_id), each, described.at_ms)
                for group_id in described.gone:
                    if group_id in watched.records.groups:
                        take_gone(watched.records.group(group_id), described.at_ms)
                watched.records.settle(described.at_ms)
        with watched.lock:
            if not watched.status.reads_records:
                watched.facts.knows_all_groups = True
        for group_id in self._next_groups(sorted(there), self._last_group):
            self._last_group = group_id
            committed = questions.committed(group_id)
            now_ms = watched.now_ms()
            with watched.lock:
                if watched.status.reads_records:
                    return
                if committed is not None and group_id in watched.records.groups:
                    take_offsets(watched.records.group(group_id), committed, now_ms)
                watched.records.settle(now_ms)

    def _ask_share_groups(self) -> None:
        """Ask where share groups begin: no record of `__consumer_offsets` says so."""
        watched = self._watched
        with watched.lock:
            groups = [each for each, group in watched.records.groups.items() if group.kind == SHARE]
        for group_id in self._next_groups(sorted(groups), self._last_share_group):
            self._last_share_group = group_id
            offsets = self._questions.share_offsets(group_id)
            with watched.lock:
                group = watched.records.groups.get(group_id)
                is_there = group is not None and group.kind == SHARE and group.snapshot.generation_id >= 0
                if offsets is not None and is_there:  # It may have been deleted meanwhile.
                    end_offset, now_ms = watched.facts.end_offset, watched.now_ms()
                    take_share_offsets(watched.records.group(group_id), offsets, end_offset, now_ms)

    def _ask_group_settings(self) -> None:
        """Ask a group with epochs for its session timeout: each has its turn, the new ones first."""
        watched = self._watched
        with watched.lock:
            kinds = {each: group.kind for each, group in watched.records.groups.items() if group.is_by_broker}
            known = watched.facts.group_session_timeouts_ms
            new = [each for each in kinds if each not in known]
        for group_id in sorted(new)[:1] or self._next_groups(sorted(kinds), self._last_setting)[:1]:
            self._last_setting = group_id
            timeout_ms = self._questions.group_session_timeout_ms(group_id, kinds[group_id])
            with watched.lock:
                if group_id in watched.records.groups:
                    known[group_id] = timeout_ms or 0

    def _next_groups(self, groups: list[str], last: str) -> list[str]:
        """Return the groups whose offsets are asked for at this look: each group has its turn."""
        at_once = max(int(self._limits.interval_seconds * self._limits.calls_per_second / 2), 1)
        later = [each for each in groups if each > last]
        return (later + groups)[: min(at_once, len(groups))]
