"""`kohort serve` as the help knows it; `main` hands it to the broker before this is reached."""

import click


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> int:
    """Run a broker."""
    from kohort.broker.main import main
    from kohort.cli.main import serve_controlled, serve_registry

    return main(arguments, serve_registry, serve_controlled)
