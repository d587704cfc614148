"""Thousands of requests by chance: what must hold after each, and of the log at its end, also compacted."""

import json
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest

from kohort.registry.errors import RegistryError
from kohort.registry.parsing import Parser
from kohort.registry.records import Record, SchemaValue, decode, encode
from kohort.registry.state import State, content_of, qualified, replayed
from kohort.registry.subjects import context_of
from kohort.registry.test_decisions import Registry, record

SEEDS = 60
STEPS = 60
SUBJECTS = ("a", "b", ":.c:a", ":.c:b")
PLAIN = ("int", "long", record("x"), record("x", optional=("y",)), record("z"))
USER = {"type": "record", "name": "U", "fields": [{"name": "r", "type": "R"}]}


class Walk:
    """One registry, and the chance that asks it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.registry = Registry()
        self._kinds: tuple[Callable[[str], tuple[str, str, Any]], ...] = (
            *[self._registering] * 6,
            self._deleting,
            self._mode,
            self._level,
        )

    def step(self) -> tuple[str, str, Any]:
        """Ask something, which may be refused; return what was asked."""
        asked = self.chance.choice(self._kinds)(quote(self.chance.choice(SUBJECTS), safe=""))
        with suppress(RegistryError):
            self.registry.ask(*asked)
        return asked

    def _registering(self, subject: str) -> tuple[str, str, Any]:
        chance = self.chance
        body: dict[str, Any] = {"schema": json.dumps(chance.choice(PLAIN))}
        referred = {"subject": chance.choice("ab"), "version": chance.choice((1, 2, 3, -1))}
        if chance.random() < 0.2:
            body = {"schema": json.dumps(USER), "references": [{"name": "R", **referred}]}
        elif chance.random() < 0.3:
            body = {"schema": '{"$ref":"r.json"}', "references": [{"name": "r.json", **referred}]}
            body["schemaType"] = "JSON"
        elif chance.random() < 0.3:
            body = {"schema": json.dumps({"type": chance.choice(("object", "string"))}), "schemaType": "JSON"}
        if chance.random() < 0.5:
            body |= {"id": chance.randrange(1, 20), "version": chance.randrange(1, 4)}
        return "POST", f"/subjects/{subject}/versions", body

    def _deleting(self, subject: str) -> tuple[str, str, Any]:
        version = self.chance.choice(("", "/versions/1", "/versions/2", "/versions/latest"))
        permanent = self.chance.choice(("false", "true"))
        return "DELETE", f"/subjects/{subject}{version}?permanent={permanent}", None

    def _mode(self, subject: str) -> tuple[str, str, Any]:
        path = self.chance.choice(("/mode", f"/mode/{subject}"))
        mode = self.chance.choice(("IMPORT", "IMPORT", "IMPORT", "READWRITE", "READWRITE", "READONLY"))
        force = self.chance.choice(("false", "true", "true"))
        return ("PUT", f"{path}?force={force}", {"mode": mode})

    def _level(self, subject: str) -> tuple[str, str, Any]:
        level = self.chance.choice(("NONE", "NONE", "FULL", "BACKWARD"))
        return "PUT", f"/config/{subject}", {"compatibility": level}

    def compacted(self) -> list[Record]:
        """Return the log, of which an older part has the last record of each key alone, or fewer."""
        pairs = [encode(each) for each in self.registry.records]
        cut = self.chance.randrange(len(pairs) + 1)
        last = {key: number for number, (key, _) in enumerate(pairs[:cut])}
        kept = [
            pair
            for number, pair in enumerate(pairs)
            if number >= cut or (last[pair[0]] == number and (pair[1] or self.chance.random() < 0.5))
        ]
        return [decode(*each) for each in kept]


def told(state: State) -> tuple[object, ...]:
    """Return all that a state has, but the largest id: compaction forgets that of what is deleted."""
    uses = {each: sorted(places) for each, places in state._uses.items()}
    referrers = {each: sorted(places) for each, places in state._referrers.items()}
    return state.subjects, state.levels, state.modes, uses, referrers


def versions(state: State) -> Iterable[SchemaValue]:
    return state.all_versions(with_deleted=True)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_asked_ids_are_unique_and_schemas_can_be_read(seed: int) -> None:
    walk = Walk(seed)
    state, parser = walk.registry.state, Parser(walk.registry.state)
    for number in range(STEPS):
        asked = walk.step()
        contents: dict[tuple[str, int], object] = {}
        for each in versions(state):
            where = f"step {number}, {asked}: {each}"
            assert contents.setdefault((context_of(each.subject), each.id), content_of(each)) == content_of(
                each
            ), where
            for reference in each.references:
                name = qualified(reference.subject, each.subject)
                assert state.version(name, reference.version, with_deleted=True) is not None, where
            parser.registered(each)
    log = walk.registry.records
    assert told(replayed(log)) == told(state)
    assert told(replayed(walk.compacted())) == told(state)
