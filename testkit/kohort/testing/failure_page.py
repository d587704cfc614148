"""The page of `pytest --kohort-report`: what the brokers of failed tests saw."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

from kohort.testing.controls import BrokerControls
from kohort.testing.errors import BrokerFailed
from kohort.testing.expectations import explain
from kohort.testing.report import UNANSWERED, outcome_of

REQUESTS_SHOWN = 300
STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --held: #b26a00; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; overflow-wrap: anywhere; }
pre { overflow-x: auto; background: #8881; padding: .7rem; font-size: 13px; }
table { border-collapse: collapse; font-size: 13px; }
td, th { text-align: left; padding: .1rem .9rem .1rem 0; vertical-align: top; }
td:first-child { font-variant-numeric: tabular-nums; text-align: right; }
tr.bad td { color: var(--bad); } tr.held td { color: var(--held); }
.lane { position: relative; height: 1.4rem; border-bottom: 1px solid var(--line); }
.lane b { font-weight: normal; font-size: 12px; }
.lane i { position: absolute; top: .25rem; width: 3px; height: .9rem; background: #4a7db5; }
.lane i.bad { background: var(--bad); } .lane i.held { background: var(--held); }
.lanes { margin-left: 12rem; } .lane b { position: absolute; left: -12rem; width: 11rem; overflow: hidden; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --held: #ffcc80; } }
"""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request: seconds since the first one, its client, its API and version, and its outcome."""

    seconds: float
    client: str
    api: str
    outcome: str

    @property
    def kind(self) -> str:
        """`bad` for an error or a fault, `held` for a request without an answer, or nothing."""
        if not self.outcome:
            return ""
        return "held" if self.outcome == UNANSWERED else "bad"


def seen_by(broker: BrokerControls) -> dict[str, object]:
    """Return what a broker saw, in a form for JSON: processes of pytest-xdist send it."""
    requests = broker.requests[-REQUESTS_SHOWN:]
    first = requests[0].time if requests else 0.0
    try:
        groups = {name: explain(broker, name) for name in broker.groups}
    except BrokerFailed:
        groups = {}  # It is stopped.
    rows = [
        RequestRow(each.time - first, each.client_id, f"{each.api} v{each.version}", outcome_of(each))
        for each in requests
    ]
    return {"report": broker.report(), "requests": [asdict(each) for each in rows], "groups": groups}


def page(failures: Sequence[Mapping[str, object]]) -> str:
    """Return the page. Each failure has a `test`, its `error`, and the `brokers` that `seen_by` returned."""
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    title = f"{len(failures)} failed tests with a broker" if failures else "No test with a broker has failed"
    parts = [f"<h1>{title}</h1><p>pytest --kohort-report, {when}</p>"]
    if len(failures) > 1:
        links = (f'<li><a href="#f{n}">{_text(each["test"])}</a>' for n, each in enumerate(failures))
        parts.append(f"<ul>{''.join(links)}</ul>")
    parts += [_failure(number, each) for number, each in enumerate(failures)]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f"<!doctype html><html lang=en>{head}<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"


def _failure(number: int, failure: Mapping[str, object]) -> str:
    brokers = failure["brokers"]
    assert isinstance(brokers, list)
    shown = "".join(map(_broker, brokers))
    return f'<h2 id="f{number}">{_text(failure["test"])}</h2><pre>{_text(failure["error"])}</pre>{shown}'


def _broker(seen: Mapping[str, object]) -> str:
    requests, groups = seen["requests"], seen["groups"]
    assert isinstance(requests, list)
    assert isinstance(groups, dict)
    rows = [RequestRow(**each) for each in requests]
    explained = "".join(
        f"<h4>kohort groups explain {_text(name)}</h4><pre>{_text(chr(10).join(lines))}</pre>"
        for name, lines in groups.items()
    )
    return (
        f"<h3>What the broker saw</h3><pre>{_text(seen['report'])}</pre>{explained}"
        f"<h4>Timeline</h4>{_timeline(rows)}<h4>The last {len(rows)} requests</h4>{_table(rows)}"
    )


def _timeline(rows: Sequence[RequestRow]) -> str:
    """Return a lane for each client with a mark for each request."""
    whole = max((each.seconds for each in rows), default=0.0) or 1.0
    lanes: dict[str, list[str]] = {}
    for each in rows:
        title = f"{each.seconds:.3f} s {each.api} {each.outcome}"
        left = f"left:{99 * each.seconds / whole:.2f}%"
        mark = f'<i class="{each.kind}" style="{left}" title="{_text(title)}"></i>'
        lanes.setdefault(each.client, []).append(mark)
    drawn = (
        f'<div class="lane"><b>{_text(client)}</b>{"".join(marks)}</div>' for client, marks in lanes.items()
    )
    return f'<div class="lanes">{"".join(drawn)}</div><p>{whole:.3f} s from left to right.</p>'


def _table(rows: Iterable[RequestRow]) -> str:
    lines = (
        f'<tr class="{each.kind}"><td>{each.seconds:.3f} s<td>{_text(each.client)}<td>{_text(each.api)}'
        f"<td>{_text(each.outcome)}"
        for each in rows
    )
    return f"<table><tr><th>time<th>client<th>request<th>outcome{''.join(lines)}</table>"


def _text(value: object) -> str:
    return escape(str(value))
