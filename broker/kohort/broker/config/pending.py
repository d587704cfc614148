"""Settings that are taken and shown, as tools expect, but change nothing yet.

A test compares this list with what the code reads: whoever makes one work takes it out.
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
