"""Lets a broker's loop stand still when somebody asks for DescribeCluster: how, the client's id says.

Python imports it at its start, where this folder is on PYTHONPATH.
"""

import re
import sys
import time
from typing import Any


def stand_still(how: str) -> None:
    """Never return."""
    if how == "compute":
        while True:
            pass
    if how == "compute in C":  # Which holds the interpreter's lock: no other thread runs.
        re.match("(a|a)*$", "a" * 100 + "b")
    if how == "wait":
        time.sleep(1_000_000)


def _install() -> None:
    from kohort.broker.handlers.administration import describe_cluster

    answer = describe_cluster.handle

    def handle(family: Any, message: Any, request: Any) -> Any:
        stand_still(request.client_id or "")
        return answer(family, message, request)

    describe_cluster.handle = handle


if "kohort.broker" in sys.orig_argv:
    _install()
