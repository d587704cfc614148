"""What readers are to be shown of a log, by its markers alone."""

from collections import defaultdict

from kohort.protocol.records import ControlType, iterate_records, read_control_type, read_header
from kohort.storage import PartitionLog


def shown(log: PartitionLog, *, is_committed: bool) -> list[tuple[int, str]]:
    """Return offset and value of each record that readers of that isolation level are shown, in order."""
    found: list[tuple[int, str]] = []
    open_records: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for batch in log.read_batches():
        header = read_header(batch)
        if header.is_control:
            kinds = {read_control_type(record.key) for record in iterate_records(batch)}
            ended = open_records.pop(header.producer_id, [])
            found += ended if ControlType.ABORT not in kinds else []
            continue
        records = [
            (record.offset, bytes(record.value or b"").decode().rstrip("\0"))
            for record in iterate_records(batch)
        ]
        if header.is_transactional and is_committed:
            open_records[header.producer_id] += records
        else:
            found += records
    return [(offset, value) for offset, value in sorted(found) if offset >= log.log_start_offset]
