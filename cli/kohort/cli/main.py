"""The `kohort` command.

`serve` goes straight to the broker: no option parser and no client library is imported on its way, so
that a broker starts as fast as it can.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, 1 for a failure, 2 for a wrong use."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv[:1] == ["serve"]:
        from kohort.broker.main import main as serve

        return serve(argv[1:])
    from kohort.cli.commands import run

    return run(argv)
