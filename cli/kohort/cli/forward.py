"""`kohort forward`: pushes topics to services, as a file says."""

from pathlib import Path

import click

from kohort.cli.options import command_config_option, json_option
from kohort.cli.output import print_line
from kohort.cli.queue_options import client_options, http_option, log_to_standard_error, run_async
from kohort.client.errors import ConfigurationError
from kohort.queues.forward import Destination, ForwardSettings, load_settings, purge, replay


@click.command()
@click.option(
    "--config",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Which topics go to which services; SIGHUP has it read again.",
)
@http_option
@click.option("--check", is_flag=True, help="Say whether the file is right, and end.")
@click.option(
    "--status",
    is_flag=True,
    help="Print what the process that serves --http says of its destinations, and end.",
)
@json_option
@click.option(
    "--explain",
    "sample",
    metavar="JSON",
    help="Say which route takes a record with these topic, key, headers and value, and end.",
)
@click.option(
    "--replay", "replayed", metavar="NAME", help="Push a destination's dead letters once more, and end."
)
@click.option("--purge", "purged", metavar="NAME", help="Give a destination's dead letters up, and end.")
@click.option("--stashed", is_flag=True, help="With --replay or --purge: the stashed records instead.")
@click.option("--quiet", "-q", is_flag=True, help="Print warnings alone.")
@command_config_option
def forward(
    *,
    file: Path,
    http: str | None,
    check: bool,
    status: bool,
    as_json: bool,
    sample: str | None,
    replayed: str | None,
    purged: str | None,
    stashed: bool,
    quiet: bool,
) -> None:
    """Push each record of topics to a service, and do with it what the answer says.

    Several of these with the same file share the work. SIGTERM lets what is under way end, and commits.

    \b
    kohort forward --config forward.toml --http 127.0.0.1:9646
    kohort forward --config forward.toml --http 127.0.0.1:9646 --status
    kohort forward --config forward.toml --replay orders
    kohort forward --config forward.toml --explain '{"topic": "orders", "headers": {"region": "eu"}}'
    """
    settings = _load(file)
    if check:
        print_line(f"{file}: {len(settings.forward)} destination(s)")
    elif sample is not None:
        from kohort.cli.forward_explain import print_explanation

        print_explanation(settings, sample)
    elif status:
        if http is None:
            raise click.UsageError("--status needs --http HOST:PORT, where the process serves")
        from kohort.cli.forward_status import print_status

        print_status(http, as_json=as_json)
    elif replayed is not None or purged is not None:
        if replayed is not None and purged is not None:
            raise click.UsageError("give --replay or --purge, not both")
        _bring_back(settings, str(replayed or purged), stashed=stashed, is_replay=replayed is not None)
    else:
        if not settings.forward:
            raise click.UsageError(f"{file} names no destination")
        from kohort.cli.forward_run import run_forwarders

        log_to_standard_error(quiet=quiet)
        run_forwarders(settings, lambda: load_settings(file), http)


def _load(file: Path) -> ForwardSettings:
    try:
        return load_settings(file)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def _bring_back(settings: ForwardSettings, name: str, *, stashed: bool, is_replay: bool) -> None:
    try:
        destination: Destination = settings.find(name)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    topic = destination.stash_topic if stashed else destination.dead_letters_topic
    options = client_options(settings.bootstrap_servers)

    async def main() -> int:
        return await (replay if is_replay else purge)(destination, topic, **options)

    count = run_async(main)
    print_line(f"{count:,} record(s) of {topic} {'are pushed once more' if is_replay else 'are given up'}")
