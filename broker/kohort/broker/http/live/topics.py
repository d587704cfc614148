"""Topics on the live page: a list of them, and one with its partitions and settings."""

from collections.abc import Mapping, Sequence

from kohort.broker.http.live.history import TOPIC, History
from kohort.broker.http.live.readers import readers_of
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.metadata import NO_LEADER, TopicState

TOPICS_SHOWN = 200
PARTITIONS_SHOWN = 500
PARTITIONS_PER_SLICE = 1_000

Json = Mapping[str, object]


async def list_view(view: View, parameters: Mapping[str, str], history: History) -> Json:
    """Return the first topics whose names contain `q`, by name. Gives way in between."""
    text = parameters.get("q", "").casefold()
    with_internal = parameters.get("internal") == "1"
    everything = list(view.topics())
    found = [
        each
        for each in everything
        if text in each.name.casefold() and (with_internal or not each.is_internal)
    ]
    found.sort(key=lambda each: each.name)
    history.want(TOPIC, [each.name for each in found[:TOPICS_SHOWN]])
    rows = []
    slices = Slices(PARTITIONS_PER_SLICE)
    for topic in found[:TOPICS_SHOWN]:
        rows.append(_row(view, topic))
        await slices.did(min(len(topic.partitions), PARTITIONS_SHOWN))
    return {"total": len(everything), "matching": len(found), "topics": rows}


def _row(view: View, topic: TopicState) -> Json:
    """Return a topic in short, with the logs of its first partitions that this broker leads."""
    size = records = offline = 0
    for state in topic.partitions[:PARTITIONS_SHOWN]:
        held = view.partition(topic.name, state.index)
        if held is None or state.leader not in (view.node_id, NO_LEADER):
            continue
        if held.offline is not None:
            offline += 1
        elif held.opened:
            size += held.log.size_bytes
            records += max(0, held.high_watermark - held.log.log_start_offset)
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "records": records,
        "size_bytes": size,
        "offline": offline,
        "is_partial": len(topic.partitions) > PARTITIONS_SHOWN,
    }


async def topic_view(view: View, topic: TopicState) -> Json:
    """Return one topic: each partition with where it begins and ends, and every setting."""
    shown = topic.partitions[:PARTITIONS_SHOWN]
    for state in shown:
        await view.open_partition(topic.name, state.index)
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "partitions": [
            {
                "index": state.index,
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
                "replicas": list(state.replicas),
                "isr": list(state.isr),
                **_log_of(view, topic.name, state.index),
            }
            for state in shown
        ],
        **await readers_of(view, topic.name),
        "settings": _settings(view.topic_settings(topic.name)),
    }


def _log_of(view: View, name: str, index: int) -> Json:
    held = view.partition(name, index)
    if held is None:
        return {}
    if held.offline is not None:
        return {"offline": str(held.offline)}
    if not held.opened:
        return {}
    return {
        "log_start_offset": held.log.log_start_offset,
        "high_watermark": held.high_watermark,
        "log_end_offset": held.log.log_end_offset,
        "size_bytes": held.log.size_bytes,
    }


def _settings(entries: Sequence[tuple[str, str | None, bool]]) -> list[Json]:
    return [{"name": name, "value": value, "is_set": is_set} for name, value, is_set in entries]
