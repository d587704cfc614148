"""The folders with the code of kohort. Each has one portion of the package, and its tests beside the code."""

ROOMS = (
    "protocol",
    "storage",
    "broker",
    "client",
    "queues",
    "registry",
    "pipeline",
    "observe",
    "cli",
    "testkit",
)
PORTIONS = frozenset("testing" if room == "testkit" else room for room in ROOMS)
