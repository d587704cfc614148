"""structlog without rich: a process that serves imports this before all else.

structlog looks for rich to draw tracebacks with, which a broker's log never shows; importing it takes
as long as a third of the broker's start. Where rich or structlog is there already, nothing is changed.
"""

import sys

if "rich" not in sys.modules and "structlog" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # None makes its import fail, as if it were absent.
    try:
        import structlog  # noqa: F401  # For its side effect: it has now looked for rich.
    finally:
        del sys.modules["rich"]
