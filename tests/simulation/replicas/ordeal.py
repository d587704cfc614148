"""An ordeal of a log: the journal knows it, begins again, and must not bring back what is cut then."""

from typing import TYPE_CHECKING

from tests.simulation.replicas.topic import Topic

if TYPE_CHECKING:
    from tests.simulation.replicas.world import World

LAX = {"flush.messages": "1000"}
STRICT_SHARE = 0.25
SYNC_ROUNDS = 12
"""In so many rounds a sync that was asked for has come to its end."""
LAX_SHARE = 0.5
LAPS_BEHIND = 0.5
ROUNDS = 4
REOPENED_MS = 150
STEP_MS = 20
LACKS_MAX = 6
CRASHES = 0.7
LAP_RECORDS = 16
"""So many records at most are written for the journal to begin again."""


async def undergo(world: "World") -> None:
    """Let a log go through one thing after the other.

    Each of them is an accident that may happen by itself; by chance they hardly ever come in this order.
    """
    if world.random.random() < STRICT_SHARE:
        await _become_strict(world)
    else:
        await _come_back(world)


async def _become_strict(world: "World") -> None:
    """Have a topic be lax, and strict once records of it are not synced."""
    topic = world.topics[world.random.choice(sorted(world.topics))]
    world.injected["ordeal: strict"] += 1
    world.note(f"{topic.name}: an ordeal, strict")
    if not topic.is_here:
        world.move(topic)
    world.configure(topic, LAX)
    world.produce_to(topic)
    await world.go_on(ROUNDS, topic)
    world.configure(topic, world.random.choice(({}, {"flush.messages": "1"}, {"flush.messages": "2"})))
    await world.go_on(SYNC_ROUNDS, topic)
    world.check_fetching(topic)


async def _come_back(world: "World") -> None:
    """Have the journal know a log that fails or goes away, begin again, and the log cut when it is back."""
    topic, other = (world.topics[name] for name in world.random.sample(sorted(world.topics), 2))
    kind = world.random.choice(("read", "write", "away"))
    world.injected[f"ordeal: {kind}"] += 1
    world.note(f"{topic.name}: an ordeal, {kind}")
    for each in (topic, other):
        if not each.is_here:
            world.move(each)
        world.configure(each, {})
        world.produce_to(each)
        await world.go_on(ROUNDS, each)
    if kind == "read":
        world.fail_reads_of(topic)
        world.fail_reads_of(other)
    elif kind == "write":
        await _fill_disk(world, topic, other)
    else:
        world.move(topic)
    if kind != "away":  # Else the lap under way has what goes with the log.
        world.host.unreadable = {other.name}
        await _begin_laps(world, 1 + world.random.randrange(2), topic)
    world.elect(topic, lacks=1 + world.random.randrange(LACKS_MAX))
    world.produce_to(topic)
    if kind == "away" or world.random.random() < LAX_SHARE:
        world.configure(topic, LAX)
    if not topic.is_here:
        world.move(topic)
    world.clock.advance(REOPENED_MS)  # A log that has failed is opened again.
    rounds = ROUNDS + world.random.randrange(2 * ROUNDS)
    if kind == "away":  # All of it is fetched again.
        rounds += topic.leader.log_end_offset // 2
    await world.go_on(rounds, topic, STEP_MS)
    if kind != "away" and world.random.random() < LAPS_BEHIND:
        await _begin_laps(world, 1, topic)  # What is new is in no journal then.
    world.is_to_crash = world.random.random() < CRASHES


async def _fill_disk(world: "World", *topics: Topic) -> None:
    """Let there be no room for what followers fetch next."""
    world.is_failing = True
    world.disk.fill(0)
    for topic in topics:
        world.produce_to(topic)
        await world.go_on(ROUNDS, topic)
    world.check_offline()
    world.look_at_life()
    world.heal()


async def _begin_laps(world: "World", count: int, topic: Topic) -> None:
    """Write beside until the journal has begun again so often."""
    position = 0
    for _ in range(LAP_RECORDS * count):
        world.produce_here()
        await world.go_on(1, topic)
        count -= world.host.journal._position < position
        position = world.host.journal._position
        if not count:
            break
