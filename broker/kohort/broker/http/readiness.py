"""Why a broker cannot answer everything, in words."""

from kohort.broker.http.view import View

OFFLINE_SHOWN = 20


def not_ready(view: View) -> list[str]:
    """Return a line for each thing that is wrong, what concerns all first; nothing where all is well."""
    reasons = [*view.health.reasons(), *view.catching_up()]
    failed = view.failed()
    for index in view.loading():
        state = "could not be loaded" if index in failed else "are being loaded"
        reasons.append(f"__consumer_offsets-{index}: its groups {state}")
    offline = [each for each in view.partitions() if each.offline is not None]
    reasons += [f"{each.topic}-{each.index}: offline: {each.offline}" for each in offline[:OFFLINE_SHOWN]]
    if len(offline) > OFFLINE_SHOWN:
        reasons.append(f"{len(offline) - OFFLINE_SHOWN} more partitions are offline")
    return reasons
