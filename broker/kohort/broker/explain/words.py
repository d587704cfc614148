"""Members, processes and durations as people read them."""

import re

SECOND_MS, MINUTE_MS = 1_000, 60_000
_UUID = re.compile(r"^(.*)-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


def member_name(member_id: str) -> str:
    """Return the client id in the member id, and enough of its UUID to distinguish members."""
    match = _UUID.match(member_id)
    if match is None:
        return member_id or "somebody"
    name, digits = match.groups()
    return f"{name}-{digits}"


def process_name(client_id: str, host: str) -> str:
    """Return the name of a process: its client id and its host. Java writes hosts with a slash."""
    return f"{client_id} from {host.lstrip('/')}"


def duration(ms: int) -> str:
    """Return a duration in the unit that suits it: 80 ms, 4.2 s, 45 s, 3 min 20 s."""
    if ms < 100:
        return f"{ms} ms"
    if ms < 10 * SECOND_MS:
        return f"{ms / SECOND_MS:.1f} s"
    if ms < 2 * MINUTE_MS:
        return f"{round(ms / SECOND_MS)} s"
    minutes, rest_ms = divmod(ms, MINUTE_MS)
    seconds = rest_ms // SECOND_MS
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
