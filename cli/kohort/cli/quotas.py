"""`kohort quotas`: how much clients may do."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from kohort.cli.completion import complete_users
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_json, print_line
from kohort.client import QUOTA_DEFAULT, QuotaEntity

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

KEYS = {
    "producer_byte_rate": "bytes a second into topics",
    "consumer_byte_rate": "bytes a second out of topics",
    "request_percentage": "percent of the broker's time",
    "controller_mutation_rate": "partitions a second that are made or go",
    "connection_creation_rate": "connections a second, of an address",
}


def _complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the quotas whose keys begin so."""
    return [each for each in KEYS if each.startswith(incomplete)]


@click.group(cls=CommandGroup)
def quotas() -> None:
    """List, set and remove quotas of users, client ids and addresses."""


def _entity_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add the options that say whose quotas."""
    for option in (
        click.option("--ip", metavar="ADDRESS", help=f"Of an address; {QUOTA_DEFAULT!r}: of all others."),
        click.option("--client-id", metavar="ID", help=f"Of a client id; {QUOTA_DEFAULT!r}: of all others."),
        click.option(
            "--user",
            metavar="NAME",
            help=f"Of a user; {QUOTA_DEFAULT!r}: of all others.",
            shell_complete=complete_users,
        ),
    ):
        command = option(command)
    return command


@quotas.command("list")
@_entity_options
@json_option
@bootstrap_option
def list_quotas(
    *, user: str | None, client_id: str | None, ip: str | None, as_json: bool, servers: str
) -> None:
    """Print the quotas, all or those of a user, a client id or an address.

    \b
    kohort quotas list
    kohort quotas list --user alice
    """
    with open_admin(servers) as admin:
        found = admin.describe_quotas(QuotaEntity(user=user, client_id=client_id, ip=ip))
    entities = sorted(found, key=_words)
    if as_json:
        print_json([{**_json(each), "quotas": found[each]} for each in entities])
        return
    for each in entities:
        for key, value in sorted(found[each].items()):
            print_line(f"{_words(each)}: {key} {value:.12g}, {KEYS.get(key, 'a quota')}")
    if not found:
        print_line("There are no quotas; kohort quotas set makes some.", err=True)


@quotas.command("set")
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True, shell_complete=_complete_keys)
@_entity_options
@json_option
@bootstrap_option
def set_quotas(
    *,
    values: tuple[str, ...],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    as_json: bool,
    servers: str,
) -> None:
    """Set quotas, which hold at once, on each broker by itself.

    \b
    kohort quotas set --user alice producer_byte_rate=1000000
    kohort quotas set --user alice --client-id app request_percentage=50
    kohort quotas set --user '<default>' controller_mutation_rate=5
    kohort quotas set --ip 10.0.0.1 connection_creation_rate=10
    """
    entity = _named(QuotaEntity(user=user, client_id=client_id, ip=ip))
    changes = dict(map(_value, values))
    with open_admin(servers) as admin:
        admin.alter_quotas(entity, changes)
    if as_json:
        print_json({**_json(entity), "set": changes})
        return
    for key, value in changes.items():
        print_line(f"{_words(entity)}: {key} is {value:.12g} now")


@quotas.command()
@click.argument("keys", metavar="[KEY...]", nargs=-1, shell_complete=_complete_keys)
@_entity_options
@json_option
@bootstrap_option
def remove(
    *,
    keys: tuple[str, ...],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    as_json: bool,
    servers: str,
) -> None:
    """Remove quotas: those that are named, or all that the entity has.

    \b
    kohort quotas remove --user alice producer_byte_rate
    kohort quotas remove --ip 10.0.0.1
    """
    entity = _named(QuotaEntity(user=user, client_id=client_id, ip=ip))
    for key in keys:
        _known(key)
    with open_admin(servers) as admin:
        there = admin.describe_quotas(entity).get(entity, {})
        gone = sorted(set(there) & set(keys or there))
        if gone:
            admin.alter_quotas(entity, dict.fromkeys(gone))
    if as_json:
        print_json({**_json(entity), "removed": gone})
    else:
        for key in gone:
            print_line(f"{_words(entity)}: no {key} any more")
    if not gone:
        raise click.ClickException("there is no such quota")


def _named(entity: QuotaEntity) -> QuotaEntity:
    """Return it where it names anybody. Raises: click.UsageError."""
    if entity == QuotaEntity():
        raise click.UsageError("give --user, --client-id or both, or --ip")
    return entity


def _known(key: str) -> str:
    """Return the key. Raises: click.UsageError where there is no such quota."""
    if key not in KEYS:
        raise click.UsageError(f"{key!r} is no quota: {', '.join(KEYS)}")
    return key


def _value(text: str) -> tuple[str, float]:
    """Return what a word sets. Raises: click.UsageError."""
    key, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not equals or not 0 < number < float("inf"):
        raise click.UsageError(f"{text!r}: give KEY=VALUE, and a number above 0")
    return _known(key), number


def _words(entity: QuotaEntity) -> str:
    named = (("user", entity.user), ("client id", entity.client_id), ("address", entity.ip))
    return ", ".join(
        f"every other {kind}" if name == QUOTA_DEFAULT else f"{kind} {name}"
        for kind, name in named
        if name is not None
    )


def _json(entity: QuotaEntity) -> dict[str, object]:
    return {"user": entity.user, "client_id": entity.client_id, "ip": entity.ip}
