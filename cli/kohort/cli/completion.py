"""`kohort completion`: what a shell needs to complete commands, options, topics and groups."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from kohort.cli.client_settings import with_settings
from kohort.cli.options import DEFAULT_SERVERS
from kohort.cli.output import print_script
from kohort.cli.probe import answers_kafka
from kohort.client import Admin
from kohort.client.config import AdminOptions, parse_address
from kohort.client.errors import KohortError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_KOHORT_COMPLETE"
TIMEOUT_MS = 1_500
PROBE_SECONDS = 0.3


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, and names of topics and groups.

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


def _names(
    ctx: click.Context, incomplete: str, ask: Callable[[Admin], tuple[str, ...]]
) -> list[CompletionItem]:
    servers = str(ctx.params.get("servers") or DEFAULT_SERVERS).split(",")[0].strip()
    try:
        if not answers_kafka(*parse_address(servers), timeout_seconds=PROBE_SECONDS, context=ctx):
            return []
        options: AdminOptions = {
            "bootstrap_servers": servers,
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
