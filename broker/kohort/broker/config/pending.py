"""Settings that kohort accepts and shows, as tools expect, but that have no effect yet.

A test compares this list with the settings that the code reads. Remove a setting here when it has an effect.
"""

BROKER_WITHOUT_EFFECT = frozenset(
    [
        "group.share.assignors",  # There is one.
        "group.streams.assignors",  # There is one.
        "log.flush.start.offset.checkpoint.interval.ms",
        "max.request.partition.size.limit",
        "queued.max.requests",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "request.timeout.ms",
    ]
)

TOPIC_WITHOUT_EFFECT = frozenset(
    [
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "local.retention.bytes",
        "local.retention.ms",
        "max.decompressed.message.bytes",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    ]
)
