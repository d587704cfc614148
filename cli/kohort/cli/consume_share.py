"""`kohort consume --share`: records as a member of a share group, accepted once they are printed."""

import sys
from typing import Protocol, cast

from kohort.cli.client_settings import reader_settings
from kohort.cli.formats import Format
from kohort.cli.options import API_TIMEOUT_MS, open_admin, require_broker
from kohort.client import ShareConsumer
from kohort.client.share.config import ShareConsumerOptions

POLL_MS = 1_000
AT_ONCE = 500


class Counter(Protocol):
    """How many records were printed, and how many may be."""

    count: int

    @property
    def left(self) -> int | None:
        """How many may still be printed, None without a limit."""
        ...


def print_shared(
    topics: tuple[str, ...],
    group: str,
    servers: str,
    show: Format,
    counter: Counter,
    *,
    timeout_ms: int | None,
) -> None:
    """Print until the count is reached or nothing comes any more; what is not printed goes back."""
    most = AT_ONCE if counter.left is None else min(counter.left, AT_ONCE)
    options: ShareConsumerOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": "kohort-cli",
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "group_id": group,
        "share_acknowledgement_mode": "explicit",
        "share_acquire_mode": "batch_optimized" if counter.left is None else "record_limit",
        "max_poll_records": most,
        "allow_auto_create_topics": False,
    }
    with open_admin(servers) as admin:
        admin.describe_topics(*topics)  # Raises an error for one that is not there.
    out = sys.stdout.buffer
    options = cast(ShareConsumerOptions, {**options, **reader_settings()})
    with ShareConsumer(*topics, **options) as consumer:
        while counter.left != 0:
            records = consumer.poll(timeout_ms=timeout_ms or POLL_MS, max_records=counter.left)
            if not records and timeout_ms is not None:
                return
            for record in records:
                out.write(show(record) + b"\n")
            out.flush()
            counter.count += len(records)
            for record in records:
                consumer.acknowledge(record)
