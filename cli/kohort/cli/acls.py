"""`kohort acls`: who may do what."""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import click

from kohort.cli.completion import complete_groups, complete_topics, complete_users
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import bootstrap_option, json_option, open_admin, together
from kohort.cli.output import print_json, print_line
from kohort.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CLUSTER = "kafka-cluster"
OPERATIONS = {each.name.lower().replace("_", "-"): each for each in AclOperation if each > AclOperation.ANY}
Resource = tuple[AclResourceType, str] | None


@click.group(cls=CommandGroup)
def acls() -> None:
    """List, add and remove access control entries."""


def _resource_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add the options that say what entries are about, of which one at most is given."""
    for option in (
        click.option("--prefix", is_flag=True, help="All names with this prefix."),
        click.option("--cluster", is_flag=True, help="About the cluster."),
        click.option("--transactional-id", metavar="ID", help="About a transactional id; `*`: all."),
        click.option(
            "--group", "-g", metavar="ID", help="About a group; `*`: all.", shell_complete=complete_groups
        ),
        click.option(
            "--topic", "-t", metavar="NAME", help="About a topic; `*`: all.", shell_complete=complete_topics
        ),
    ):
        command = option(command)
    return command


def _resource(topic: str | None, group: str | None, transactional_id: str | None, cluster: bool) -> Resource:
    """Return what the options name, None where they name nothing. Raises: click.UsageError."""
    given = [
        (kind, name)
        for kind, name in (
            (AclResourceType.TOPIC, topic),
            (AclResourceType.GROUP, group),
            (AclResourceType.TRANSACTIONAL_ID, transactional_id),
            (AclResourceType.CLUSTER, CLUSTER if cluster else None),
        )
        if name is not None
    ]
    if len(given) > 1:
        raise click.UsageError("give one of --topic, --group, --transactional-id and --cluster")
    return given[0] if given else None


def _pattern(prefix: bool) -> AclPatternType:
    return AclPatternType.PREFIXED if prefix else AclPatternType.LITERAL


def _principal(text: str) -> str:
    """Return the principal, which is a user where no type is said."""
    return text if ":" in text else f"User:{text}"


def _operation(text: str) -> AclOperation:
    found = OPERATIONS.get(text.lower().replace("_", "-"))
    if found is None:
        raise click.UsageError(f"{text!r} is no operation: {', '.join(OPERATIONS)}")
    return found


@acls.command("list")
@click.option("--principal", metavar="USER", help="Only of this user.", shell_complete=complete_users)
@_resource_options
@json_option
@bootstrap_option
def list_acls(
    *,
    principal: str | None,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    prefix: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Print the entries. With a name, print the entries that apply to it, also by `*` and by prefix.

    \b
    kohort acls list
    kohort acls list --topic orders --principal alice
    """
    named = _resource(topic, group, transactional_id, cluster)
    match = AclPatternType.PREFIXED if prefix else AclPatternType.MATCH
    wanted = AclFilter(
        resource_type=AclResourceType.ANY if named is None else named[0],
        name=None if named is None else named[1],
        pattern=AclPatternType.ANY if named is None else match,
        principal=None if principal is None else _principal(principal),
    )
    with open_admin(servers) as admin:
        found = sorted(admin.list_acls(wanted), key=_order)
    if as_json:
        print_json([_json(each) for each in found])
        return
    for each in found:
        print_line(_words(each))


def _entry_options(host: str, deny: str) -> Callable[[Any], Any]:
    """Return the decorator that adds what says an entry, in the words for its host and its denial."""
    return together(
        click.argument("principal", metavar="USER", shell_complete=complete_users),
        click.argument("operations", metavar="OPERATION...", nargs=-1, required=True),
        _resource_options,
        click.option("--host", default="*", show_default=True, metavar="ADDRESS", help=host),
        click.option("--deny", is_flag=True, help=deny),
        json_option,
        bootstrap_option,
    )


def _entries(
    *,
    principal: str,
    operations: tuple[str, ...],
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    prefix: bool,
    host: str,
    deny: bool,
) -> list[Acl]:
    """Return the entries that the options say, one for each operation. Raises: click.UsageError."""
    named = _named(_resource(topic, group, transactional_id, cluster))
    return [
        Acl(
            _principal(principal),
            _operation(each),
            *named,
            pattern=_pattern(prefix),
            host=host,
            permission=AclPermission.DENY if deny else AclPermission.ALLOW,
        )
        for each in operations
    ]


@acls.command()
@_entry_options("Only from this address.", "Deny the operation, whatever other entries allow.")
def add(*, as_json: bool, servers: str, **said: Any) -> None:
    """Allow or deny a user an operation.

    \b
    kohort acls add alice write --topic orders
    kohort acls add bob read --topic orders --prefix
    kohort acls add '*' describe --topic '*'
    """
    made = _entries(**said)
    with open_admin(servers) as admin:
        admin.create_acls(*made)
    _show("Added", made, as_json=as_json)


@acls.command()
@_entry_options("The entry's own address.", "The entry that denies.")
def remove(*, as_json: bool, servers: str, **said: Any) -> None:
    """Remove entries, with the arguments of `acls add`."""
    filters = [
        AclFilter(
            resource_type=each.resource_type,
            name=each.name,
            pattern=each.pattern,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission=each.permission,
        )
        for each in _entries(**said)
    ]
    with open_admin(servers) as admin:
        removed = admin.delete_acls(*filters)
    _show("Removed", removed, as_json=as_json)
    if not removed:
        raise click.ClickException("there is no such entry")


def _show(what: str, entries: Sequence[Acl], *, as_json: bool) -> None:
    if as_json:
        print_json([_json(each) for each in entries])
        return
    for each in entries:
        print_line(f"{what}: {_words(each)}")


def _named(resource: Resource) -> tuple[AclResourceType, str]:
    if resource is None:
        raise click.UsageError("say what it is about: --topic, --group, --transactional-id or --cluster")
    return resource


def _order(acl: Acl) -> tuple[object, ...]:
    return acl.resource_type, acl.name, acl.pattern, acl.principal, acl.operation, acl.host


def _words(acl: Acl) -> str:
    verb = "may" if acl.permission is AclPermission.ALLOW else "may not"
    kind = acl.resource_type.name.lower().replace("_", " ")
    what = "the cluster" if acl.resource_type is AclResourceType.CLUSTER else f"{kind} {acl.name}"
    if acl.pattern is AclPatternType.PREFIXED:
        what = f"{kind}s that begin with {acl.name}"
    place = "" if acl.host == "*" else f" from {acl.host}"
    return f"{acl.principal} {verb} {acl.operation.name.lower().replace('_', '-')} {what}{place}"


def _json(acl: Acl) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
        "resource_type": acl.resource_type.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
    }
