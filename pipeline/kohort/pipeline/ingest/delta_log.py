"""What the log of a Delta table says about the batches in it.

The log is a folder `_delta_log` of numbered files, one per version of the table, each made in one step; a
line of JSON per action. Each batch is one version: its `commitInfo` has our note on the batch as user
metadata, and the metrics of the write. Delta may delete files older than `delta.logRetentionDuration`.
Source: Delta's PROTOCOL.md, sections 'Delta Log Entries' and 'Commit Provenance Information'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.folder import Folder
from kohort.pipeline.ingest.word import Word, read_word

LOG, ENDING, DIGITS = "_delta_log", ".json", 20
APPLICATION = "kohort-ingest"
"""Whose transactions the batches are."""


class DeltaLogError(PipelineError):
    """A Delta log that is damaged, or of a kind that is not known here."""


@dataclass(frozen=True, slots=True)
class Put:
    """A batch in the table: its version, the number of its transaction, our note on it, its rows."""

    version: int
    number: int
    word: Word
    rows: int


class DeltaLog:
    """The log of one table, read and never written: Delta does that."""

    def __init__(self, table: Folder) -> None:
        self.uri = table.uri
        self._folder = table.child(LOG)

    def version(self) -> int:
        """Return the version of the table, -1 where there is none."""
        return max(self._versions(), default=-1)

    def last_put(self, above: int = -1) -> Put | None:
        """Return the newest batch in the table, None where no version above that one has a batch.

        Versions between are others' work: compaction, deletions. Raises: DeltaLogError.
        """
        for version in sorted((each for each in self._versions() if each > above), reverse=True):
            try:
                text = self._folder.read(_name(version))
            except FileNotFoundError:  # This version was deleted meanwhile, with all older ones.
                return None
            found = parse_commit(version, text)
            if found is not None:
                return found
        return None

    def _versions(self) -> set[int]:
        names = self._folder.names()
        return {
            int(name[:DIGITS])
            for name in names
            if len(name) == DIGITS + len(ENDING) and name.endswith(ENDING) and name[:DIGITS].isdigit()
        }


def parse_commit(version: int, text: str) -> Put | None:
    """Return the batch that a version put in, None where it is not one of ours. Raises: DeltaLogError."""
    try:
        told = next(_actions(text, "commitInfo"), None)
        transactions = {each["appId"]: int(each["version"]) for each in _actions(text, "txn")}
    except (ValueError, KeyError, TypeError) as error:
        raise DeltaLogError(f"version {version} of the Delta log is damaged: {error}") from None
    if told is None:
        return None
    word = read_word(told.get("userMetadata"))
    if word is None:
        return None
    if APPLICATION not in transactions:
        raise DeltaLogError(f"version {version} of the Delta log has a batch of ours without its transaction")
    rows = int((told.get("operationMetrics") or {}).get("numOutputRows", 0))
    return Put(version, transactions[APPLICATION], word, rows)


def _actions(text: str, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of one kind, each as JSON has it. Raises: ValueError."""
    sign = f'"{kind}"'
    for line in text.splitlines():
        if sign in line:  # Most lines are files with their statistics: they are not decoded here.
            found = json.loads(line).get(kind)
            if found is not None:
                yield found


def _name(version: int) -> str:
    return f"{version:0{DIGITS}}{ENDING}"
