"""Metrics of many rows as text, in the form that Prometheus and OpenMetrics share.

A sample of the Prometheus client is a tuple and a dictionary: a hundred thousand of them keep the garbage
collector, and with it the loop, busy for longer than the page is worth. Here a row is a line of text.
"""

import time
from collections.abc import Iterable, Iterator

from kohort.protocol.metric_family import Family

Rows = Iterable[tuple[tuple[str, ...], float]]
Table = tuple[Family, Rows]

ROWS_PER_REST = 200
REST_SECONDS = 0.0001
OPENMETRICS_END = b"# EOF\n"


def add_tables(page: bytes, tables: Iterable[Table]) -> bytes:
    """Return the page with these tables at its end. For a worker thread: it rests often for the loop."""
    body = page.removesuffix(OPENMETRICS_END)
    end = OPENMETRICS_END if len(body) < len(page) else b""
    parts = [body]
    for family, rows in tables:
        assert family.kind == "gauge", family
        parts.append(f"# HELP {family.name} {family.documentation}\n# TYPE {family.name} gauge\n".encode())
        parts += _lines(family, rows)
    return b"".join((*parts, end))


def _lines(family: Family, rows: Rows) -> Iterator[bytes]:
    """Yield the lines of a table in pieces. The client of Prometheus sorts labels by name, and so do we."""
    places = sorted(range(len(family.labels)), key=family.labels.__getitem__)
    lines: list[str] = []
    for labels, value in rows:
        pairs = ",".join([f'{family.labels[place]}="{_escaped(labels[place])}"' for place in places])
        lines.append(
            f"{family.name}{{{pairs}}} {float(value)!r}\n" if pairs else f"{family.name} {value!r}\n"
        )
        if len(lines) == ROWS_PER_REST:
            yield "".join(lines).encode()
            lines.clear()
            time.sleep(REST_SECONDS)
    yield "".join(lines).encode()


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value
