"""`kohort completion`: what a shell needs to complete commands, options, and names that a broker knows."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from kohort.cli.client_settings import with_settings
from kohort.cli.options import DEFAULT_SERVERS
from kohort.cli.output import print_script
from kohort.cli.probe import answers_kafka
from kohort.client import Admin, ResourceType
from kohort.client.addresses import parse_address
from kohort.client.config import AdminOptions
from kohort.client.errors import KohortError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_KOHORT_COMPLETE"
TIMEOUT_MS = 1_500
PROBE_SECONDS = 0.3
ALL_BROKERS = "all"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, and names that a broker knows.

    It knows topics, groups, users, brokers and settings.

    \b
    kohort completion bash > ~/.local/share/bash-completion/completions/kohort
    kohort completion zsh > ~/.zfunc/_kohort        # a folder in fpath
    kohort completion fish > ~/.config/fish/completions/kohort.fish
    """
    from kohort.cli.commands import kohort

    found = get_completion_class(shell)
    assert found is not None
    print_script(found(kohort, {}, "kohort", VARIABLE).source())


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics whose names begin so; none where no broker answers at once."""
    return _names(ctx, incomplete, lambda admin: admin.list_topics(include_internal=incomplete[:1] == "_"))


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups whose ids begin so; none where no broker answers at once."""
    return _names(ctx, incomplete, lambda admin: tuple(each.group_id for each in admin.list_groups()))


def complete_share_groups(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the share groups whose ids begin so; none where no broker answers at once."""
    return _names(
        ctx, incomplete, lambda admin: tuple(each.group_id for each in admin.list_groups(types=["share"]))
    )


def complete_users(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the users of SCRAM whose names begin so; none where no broker answers at once."""
    return _names(ctx, incomplete, lambda admin: tuple(sorted(admin.describe_users())))


def complete_brokers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the brokers that run, also behind a comma; none where no broker answers at once."""
    before, comma, last = incomplete.rpartition(",")
    found = _names(ctx, last, lambda admin: tuple(map(str, _broker_ids(admin))))
    return [CompletionItem(f"{before}{comma}{each.value}") for each in found]


def complete_brokers_or_all(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids of the brokers, and `all`."""
    found = complete_brokers(ctx, param, incomplete)
    return [*found, CompletionItem(ALL_BROKERS)] if ALL_BROKERS.startswith(incomplete) else found


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of settings of what the command names before; without that, of a broker."""
    return _names(ctx, incomplete, lambda admin: _settings(ctx, admin))


def complete_topic_settings(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of settings of topics; none where no broker answers at once."""
    return _names(ctx, incomplete, lambda admin: _topic_settings(ctx, admin))


def _broker_ids(admin: Admin) -> list[int]:
    return sorted(each.node_id for each in admin.describe_cluster().nodes)


def _settings(ctx: click.Context, admin: Admin) -> tuple[str, ...]:
    topic, group, broker = (ctx.params.get(each) for each in ("topic", "group", "broker"))
    if topic:
        return tuple(admin.describe_configs(ResourceType.TOPIC, topic))
    if group:
        return tuple(admin.describe_configs(ResourceType.GROUP, group))
    name = broker if broker and broker != ALL_BROKERS else str(_broker_ids(admin)[0])
    return tuple(admin.describe_configs(ResourceType.BROKER, name))


def _topic_settings(ctx: click.Context, admin: Admin) -> tuple[str, ...]:
    """Return what a topic that exists has, the command's first, or where there is none what kohort knows."""
    existing = admin.list_topics(include_internal=True)
    named = [each for each in (ctx.params.get("name"), *existing) if each in existing]
    if named:
        return tuple(admin.describe_configs(ResourceType.TOPIC, named[0]))
    from kohort.broker.config.topic_config import TOPIC_DEFINITIONS

    return tuple(each.name for each in TOPIC_DEFINITIONS)


def _names(
    ctx: click.Context, incomplete: str, ask: Callable[[Admin], tuple[str, ...]]
) -> list[CompletionItem]:
    servers = str(ctx.params.get("servers") or DEFAULT_SERVERS)
    try:
        server = next((each.strip() for each in servers.split(",") if _answers(each.strip(), ctx)), None)
        if server is None:
            return []
        options: AdminOptions = {
            "bootstrap_servers": server,
            "default_api_timeout_ms": TIMEOUT_MS,
            "request_timeout_ms": TIMEOUT_MS,
        }
        options = with_settings(options, ctx)
        with Admin(**options) as admin:
            names = ask(admin)
    except (KohortError, OSError):
        return []  # A shell that waits for a name has no use for an error.
    # A name that is not plain could be obeyed by the shell's own display.
    return [CompletionItem(each) for each in names if each.startswith(incomplete) and each.isprintable()]


def _answers(address: str, ctx: click.Context) -> bool:
    host, port = parse_address(address)
    try:
        return answers_kafka(host, port, timeout_seconds=PROBE_SECONDS, context=ctx)
    except (KohortError, OSError):
        return False
