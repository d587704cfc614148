"""A script: a seed that says, step by step, what the virtual members of one group ask.

It looks at what both brokers have answered alike so far, so that it reaches every state; it never looks
at a clock. The same seed and the same answers make the same script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.differential import requests
from tests.differential.actor import LONG_MS, SHORT_MS, Actor, Words
from tests.differential.requests import Ask, Topics, Wait
from tests.differential.side import TOPICS, Rendered

METADATA_LIMIT = 64
GROUP_MAX_SIZE = 6
STATIC_CLIENT = "static-client"
PROTOCOLS = ("range", "roundrobin", "sticky")
NONE, MEMBER_ID_REQUIRED = 0, 79
FORGETTING = {25, 82}


@dataclass
class View:
    """How the group stands, as both brokers say."""

    state: str = "Dead"
    members: frozenset[str] = frozenset()
    parked: frozenset[int] = frozenset()
    is_initial: bool = False


class Script:
    """Chooses the next step; `tempo` says which timer, if any, is short enough to be waited for."""

    def __init__(self, seed: int, group_id: str) -> None:
        self.group_id = group_id
        self.random = random = Random(seed)
        self.tempo = random.choice(("calm", "calm", "calm", "short rebalance", "short session"))
        self.steps = random.randint(20, 45)
        self.newest = random.choice((9, 10, 10, 10, 4, 2))  # Some scripts are of old clients.
        self.labels: list[str] = []
        self.mortal: Actor | None = None
        self.actors = [self._actor(number) for number in range(random.choice((1, 2, 2, 3, 3, 4, 4, 5, 5, 8)))]
        if self.tempo == "short session":
            self.mortal = self.actors[0]
            self.mortal.session_ms = SHORT_MS
        self.asked = 0

    def next(self, view: View) -> Ask | Wait | None:
        """Return the next step, None at the end."""
        self.asked += 1
        if self.asked > self.steps:
            return None
        for actor in self.actors:
            if actor.busy not in view.parked:
                actor.busy = None
        if self._has_to_die(view):
            return Wait(gone=self._condemned())
        if self.random.random() < 0.55:
            step = self._onward(view)
            if isinstance(step, Wait) and self.mortal is not None and self.mortal.busy is None:
                return self._join(self.mortal)  # While others wait its own time would run out.
            if step is not None:
                return step
        return self._aside(view)

    # On with the group.

    def _onward(self, view: View) -> Ask | Wait | None:
        free = [each for each in self.actors if each.busy is None]
        match view.state:
            case "PreparingRebalance":
                return self._join_or_wait(view, free)
            case "CompletingRebalance":
                late = [each for each in free if each.owes_sync and each.label in view.members]
                if late and (self.tempo != "short rebalance" or self.random.random() < 0.7):
                    return self._sync(self.random.choice(late))
                if self.tempo == "short rebalance" and view.parked:
                    return Wait()
                return self._join(self.random.choice(free)) if free else None
            case "Stable":
                return self._live(view, free)
            case _:
                return self._join(self.random.choice(free)) if free else None

    def _join_or_wait(self, view: View, free: list[Actor]) -> Ask | Wait | None:
        if view.is_initial:
            return self._join(self.random.choice(free)) if free and self.random.random() < 0.5 else Wait()
        if self.tempo == "short rebalance" and view.parked and self.random.random() < 0.4:
            return Wait()
        return self._join(self.random.choice(free)) if free else None

    def _live(self, view: View, free: list[Actor]) -> Ask | None:
        if not free:
            return None
        actor = self.random.choice(free)
        if actor.label not in view.members:
            return self._join(actor)
        if actor.owes_sync and self.random.random() < 0.7:
            return self._sync(actor)
        choice = self.random.random()
        if choice < 0.15:
            return self._leave([actor])
        if choice < 0.25 and len(free) > 1:
            return self._leave(self.random.sample(free, 2))
        if choice < 0.35:
            self._change_protocols(actor)
            return self._join(actor)
        if choice < 0.5:
            return self._join(actor)
        if choice < 0.65 and actor.instance_id is not None:
            actor.label = ""  # Its process started anew.
            return self._join(actor)
        if choice < 0.8:
            return self._commit(actor.words(self.group_id))
        return self._heartbeat(actor.words(self.group_id))

    # Beside it: what administrators ask, and lies.

    def _aside(self, view: View) -> Ask | Wait:
        choices: list[Callable[[], Ask]] = [
            self._fetch,
            self._describe,
            self._list,
            self._delete_offsets,
            self._find,
            self._simple_commit,
            self._lying_member,
            self._lying_member,
            self._lying_member,
            self._lying_member,
            self._lying_leave,
        ]
        if self.random.random() < 0.3:
            choices.append(self._delete)
        actor = self.random.choice(self.actors)
        if actor.label:
            words = actor.words(self.group_id)
            choices += [lambda: self._heartbeat(words), lambda: self._commit(words)]
        return self.random.choice(choices)()

    def _lying_member(self) -> Ask:
        actor = self.random.choice(self.actors)
        words = actor.words(self.group_id)
        for _ in range(self.random.choice((1, 1, 2))):
            self._lie(words)
        name = self.random.choice(("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"))
        version = self._version(name, words)
        if name == "JoinGroup":
            if words.group_id:
                words.group_id = self.group_id  # Another group's timers would be nobody's to wait for.
            ask = requests.join(version, words, None)
            ask.client_id = STATIC_CLIENT if words.instance_id is not None else actor.client_id
            return ask
        if name == "SyncGroup":
            return requests.sync(version, words, actor.followers if self.random.random() < 0.3 else ())
        if name == "Heartbeat":
            return requests.heartbeat(version, words)
        words.group_id = words.group_id or self.group_id  # Anybody may commit to the group without a name.
        return self._commit(words)

    def _lie(self, words: Words) -> None:
        random = self.random
        match random.randint(0, 8):
            case 0 | 1:
                words.generation_id = random.choice(
                    (-1, 0, words.generation_id - 1, words.generation_id + 1, 2**31 - 9)
                )
            case 2 | 3:
                words.member = random.choice(("", "stranger", *self.labels))
            case 4 | 5:
                words.instance_id = random.choice((None, "unknown", "static-0", "static-1", "static-2"))
            case 6:
                words.protocol_type = random.choice((None, "connect", "consumer", ""))
                words.protocol_name = random.choice((None, "unheard-of", *PROTOCOLS))
            case 7:
                words.protocols = random.choice(([], [("unheard-of", ["alpha"])], [("range", ["gamma"])]))
            case _:
                words.session_ms = random.choice((1, 499, 10_000_000))
        if random.random() < 0.03:
            words.group_id = random.choice(("", f"{self.group_id}-other"))

    def _lying_leave(self) -> Ask:
        known = ["", "stranger", *self.labels[-4:]]
        instances = [None, None, "unknown", "static-0", "static-1"]
        leavers = [
            (self.random.choice(known), self.random.choice(instances))
            for _ in range(self.random.choice((0, 1, 1, 2, 3)))
        ]
        version = self._version("LeaveGroup")
        if not leavers and version < 3:
            leavers = [("stranger", None)]
        return requests.leave(version, self.group_id, leavers, self.random.choice((None, "", "tired")))

    def _simple_commit(self) -> Ask:
        return self._commit(Words(group_id=self.group_id, generation_id=-1))

    def _fetch(self) -> Ask:
        groups = [self.group_id]
        version = self._version("OffsetFetch")
        if version >= 8:
            groups = self.random.choice(([self.group_id], [self.group_id, f"{self.group_id}-other"], []))
        topics = None if version > 1 and self.random.random() < 0.5 else self._topics()
        return requests.fetch(version, groups, topics, stable=self.random.random() < 0.3)

    def _describe(self) -> Ask:
        groups = self.random.choice(
            ([self.group_id], [f"{self.group_id}-other"], [self.group_id, f"{self.group_id}-other"], [""], [])
        )
        return requests.describe(self._version("DescribeGroups"), groups)

    def _list(self) -> Ask:
        states = self.random.choice(
            ([], ["Stable"], ["empty", "STABLE"], ["PreparingRebalance"], ["CompletingRebalance"], ["Odd"])
        )
        types = self.random.choice(([], [], ["classic"], ["Classic"], ["consumer"], ["odd"]))
        return requests.list_groups(self._version("ListGroups"), states, types)

    def _delete(self) -> Ask:
        groups = self.random.choice(
            ([self.group_id], [self.group_id, self.group_id], [f"{self.group_id}-other", self.group_id], [""])
        )
        return requests.delete_groups(self._version("DeleteGroups"), groups)

    def _delete_offsets(self) -> Ask:
        group_id = self.random.choice((self.group_id, self.group_id, self.group_id, f"{self.group_id}-other"))
        return requests.delete_offsets(group_id, self._topics())

    def _find(self) -> Ask:
        return requests.find_coordinator(self._version("FindCoordinator"), self.group_id)

    # What an actor asks in earnest.

    def _join(self, actor: Actor) -> Ask:
        words = actor.words(self.group_id)
        reason = self.random.choice((None, "", "as ever"))
        ask = requests.join(self._version("JoinGroup", words), words, reason)
        ask.actor = actor
        ask.learn = lambda answer: self._joined(actor, answer)
        ask.client_id = actor.client_id
        return ask

    def _joined(self, actor: Actor, answer: Rendered) -> None:
        assert isinstance(answer, dict)
        code = answer["error_code"]
        if code in FORGETTING:
            actor.label = ""
        if code not in (NONE, MEMBER_ID_REQUIRED):
            return
        actor.label = answer["member_id"]
        if actor.label not in self.labels:
            self.labels.append(actor.label)
        if code == NONE:
            actor.generation_id = answer["generation_id"]
            actor.protocol_name = answer["protocol_name"]
            actor.owes_sync = True
            actor.followers = tuple(each["member_id"] for each in answer["members"])

    def _sync(self, actor: Actor) -> Ask:
        words = actor.words(self.group_id)
        assigned: tuple[str, ...] = actor.followers
        choice = self.random.random()
        if assigned and choice < 0.1:
            assigned = assigned[1:]
        elif choice > 0.93:
            assigned = (*assigned, "stranger")
        version = self._version("SyncGroup", words)
        if words.protocol_name is None or (version < 5 and self.random.random() < 0.5):
            words.protocol_type = words.protocol_name = None
        ask = requests.sync(version, words, assigned)
        ask.actor = actor
        ask.learn = lambda answer: self._synced(actor, answer)
        ask.client_id = actor.client_id
        return ask

    @staticmethod
    def _synced(actor: Actor, answer: Rendered) -> None:
        assert isinstance(answer, dict)
        if answer["error_code"] in FORGETTING:
            actor.label = ""
        actor.owes_sync = False

    def _heartbeat(self, words: Words) -> Ask:
        return requests.heartbeat(self._version("Heartbeat", words), words)

    def _commit(self, words: Words) -> Ask:
        metadata = self.random.choice((None, "", "here", "x" * METADATA_LIMIT, "x" * (METADATA_LIMIT + 1)))
        version = self._version("OffsetCommit", words)
        return requests.commit(version, words, self._topics(), self.random.randint(0, 99), metadata)

    def _leave(self, actors: list[Actor]) -> Ask:
        words = actors[0].words(self.group_id)
        statics = [each for each in actors if each.instance_id is not None]
        version = self._version("LeaveGroup", statics[0].words(self.group_id) if statics else words)
        if version < 3:
            actors = actors[:1]
        by_instance = self.random.random() < 0.3
        leavers = [
            ("" if by_instance and each.instance_id else each.label, each.instance_id) for each in actors
        ]
        for each in actors:
            each.label, each.generation_id, each.owes_sync = "", -1, False
        return requests.leave(version, self.group_id, leavers, self.random.choice((None, "", "done")))

    # Odds and ends.

    def _actor(self, number: int) -> Actor:
        random = self.random
        is_static = self.newest >= 5 and random.random() < 0.4
        actor = Actor(
            client_id=STATIC_CLIENT if is_static and random.random() < 0.9 else f"client-{number % 2}",
            instance_id=f"static-{number}" if is_static else None,
            protocols=[],
            rebalance_ms=SHORT_MS if self.tempo == "short rebalance" else LONG_MS,
        )
        self._change_protocols(actor)
        return actor

    def _change_protocols(self, actor: Actor) -> None:
        names = self.random.choice(
            (["range"], ["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["sticky", "range"])
        )
        topics = self.random.choice((["alpha"], ["alpha", "beta"], ["gamma"], ["nowhere"], []))
        actor.protocols = [(name, list(topics)) for name in names]

    def _version(self, name: str, words: Words | None = None) -> int:
        return requests.pick_version(self.random, name, newest=self.newest, words=words)

    def _topics(self) -> Topics:
        names = self.random.sample(("alpha", "beta", "gamma", "nowhere"), self.random.randint(1, 2))
        return [
            (name, sorted(self.random.sample(range(TOPICS.get(name, 1) + 1), self.random.randint(1, 2))))
            for name in names
        ]

    def _condemned(self) -> str:
        assert self.mortal is not None
        return self.mortal.label

    def _has_to_die(self, view: View) -> bool:
        """Return whether to wait for the mortal's end now; it never lives longer than a few steps."""
        mortal = self.mortal
        if mortal is None or mortal.label not in view.members or mortal.busy is not None:
            return False
        return self.random.random() < 0.4
