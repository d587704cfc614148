"""Records whose keys and values a schema registry explains, as JSON, before they are printed."""

import click
import msgspec

from kohort.cli.formats import Format, JsonText
from kohort.cli.output import print_line
from kohort.client import ConsumerRecord, SchemaRegistry
from kohort.registry.decoding import SchemaDecoder, UndecodableError


def with_schemas(show: Format, url: str) -> Format:
    """Return a format that shows keys and values which begin with the id of a schema as JSON.

    Other bytes stay as they are. So do those that do not fit their schema: a line on standard error names
    them. Raises: ConfigurationError for an invalid URL.
    """
    decoder = SchemaDecoder(SchemaRegistry(*(each.strip() for each in url.split(","))))

    def decoded(record: ConsumerRecord, name: str, data: bytes | None) -> bytes | None:
        try:
            text = None if data is None else decoder.json_of(data)
        except UndecodableError as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            print_line(click.style(f"the {name} of {place}: {error}", fg="yellow"), err=True)
            return data
        return data if text is None else JsonText(text.encode())

    def shown(record: ConsumerRecord) -> bytes:
        key, value = decoded(record, "key", record.key), decoded(record, "value", record.value)
        return show(msgspec.structs.replace(record, key=key, value=value))

    return shown
