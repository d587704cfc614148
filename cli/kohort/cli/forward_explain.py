"""`kohort forward --explain`: which route of each destination takes a record."""

import click
import msgspec

from kohort.cli.output import print_line
from kohort.client.values import ConsumerRecord
from kohort.queues.forward import Destination, ForwardSettings, explain


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record as it is asked about. A value that is no string is JSON."""

    topic: str = ""
    key: str | None = None
    headers: dict[str, str] = {}
    value: object = None


def print_explanation(settings: ForwardSettings, text: str) -> None:
    """Print what each destination of the topic, or each one at all, does with the record.

    Raises: click.UsageError.
    """
    try:
        sample = msgspec.json.decode(text, type=Sample)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise click.UsageError(f"--explain: {error}") from None
    found = [each for each in settings.forward if sample.topic in ("", each.topic)]
    if not found:
        raise click.UsageError(f"--explain: no destination reads topic {sample.topic!r}")
    for destination in found:
        print_line(f"destination {destination.name}")
        for line in _lines(destination, record_of(sample)):
            print_line(f"  {line}")


def _lines(destination: Destination, record: ConsumerRecord[bytes, bytes]) -> list[str]:
    lines = explain(destination.route, record)
    if not lines or ": no, " in lines[-1]:
        lines.append(f"no route: push to {destination.url}")
    if destination.delay_ms:
        lines.append(f"no sooner than {destination.delay_ms:,} ms after its timestamp")
    return lines


def record_of(sample: Sample) -> ConsumerRecord[bytes, bytes]:
    """Return the record that was asked about."""
    value = sample.value
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    headers = tuple((name, each.encode()) for name, each in sample.headers.items())
    key = None if sample.key is None else sample.key.encode()
    return ConsumerRecord(sample.topic, 0, 0, 0, key, None if value is None else data, headers)
