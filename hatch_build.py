"""Compiles the hottest modules into the wheel where KOHORT_COMPILE=1: by mypyc, from the same source.

A wheel that is built without it has the modules as they are, and so has this one: what is compiled lies
beside its source, and Python prefers it. Decisions 0029 and 0034.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED_FOR = "KOHORT_COMPILE"


def within(folder: str, names: str) -> tuple[str, ...]:
    """Return the paths of a folder's modules."""
    return tuple(f"{folder}/{name}.py" for name in names.split())


COMPILED = (
    *within("protocol/kohort/protocol", "framing"),
    *within("protocol/kohort/protocol/records", "builder decoding varint"),
    *within("broker/kohort/broker/runtime", "clock counters throttled_log"),
    *within(
        "broker/kohort/broker/transport",
        "answers connection in_flight load peer plain reactor request request_forms",
    ),
    *within(
        "broker/kohort/broker/group",
        "administration coordinator group kinds notes shard_bytes subscriptions turn",
    ),
    *within(
        "broker/kohort/broker/group/classic",
        "group joining leaving member_metadata parking rebalancing records replaying sessions"
        " static_membership syncing timers",
    ),
    *within("broker/kohort/broker/explain", "history journal moves rebalance rejoining"),
    *within("broker/kohort/broker/group/consumer", "heartbeat_fast_path"),
    *within("broker/kohort/broker/group/epochs", "group sessions"),
    *within("broker/kohort/broker/group/offsets", "commits replaying"),
    *within(
        "broker/kohort/broker/coordination",
        "coordinator_shards counters events group_events group_shards shard",
    ),
    *within(
        "broker/kohort/broker/handlers/groups",
        "closing heartbeat join_group offset_commit offset_fetch sync_group",
    ),
)
"""What each request to a broker goes through, and each record of a client.

No module with classes of msgspec's or enums is among them: metaclasses make those, which mypyc does not know.
"""
READERS = "protocol/kohort/protocol/request_decoders/readers.py"
"""What the decoders of requests read with, which are written at each build. Decision 0065."""
PARTS = ("protocol", "client", "storage", "broker", "cli")
TYPES = ("msgspec", "structlog", "trio")
MYPY = (
    "--explicit-package-bases",
    "--namespace-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--no-warn-unused-ignores",  # Fewer are needed where other libraries are not installed.
)


class CompilingHook(BuildHookInterface[Any]):
    """Adds the extensions to a wheel, which is then one for this Python on this kind of machine."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What compiles, and what it has to know the types of, is installed only where it is wanted."""
        return ["mypy>=1.18", "setuptools>=75", *TYPES] if is_asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where the results belong."""
        if not is_asked_for() or self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        target = root / "build" / "compiled"
        for extension in compile_into(target, root):
            build_data["force_include"][str(extension)] = str(extension.relative_to(target))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def is_asked_for() -> bool:
    """Whether somebody wants more than the source."""
    return os.environ.get(ASKED_FOR, "0") not in ("", "0")


def compile_into(target: Path, root: Path) -> list[Path]:
    """Return the extensions, which lie in `target` beside their modules and all that these import.

    The parts of the namespace have folders of their own, which mypyc does not follow: they are laid together.
    """
    shutil.rmtree(target, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(root / part, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    modules = [path.partition("/")[2] for path in COMPILED]
    decoders = [READERS.partition("/")[2], *write_decoders(target)]
    with subprocess.Popen([sys.executable, __file__, str(target), *decoders]) as beside:
        extend(target, modules, "kohort", opt_level="3", debug_level="1")
    if beside.returncode:
        raise RuntimeError("the decoders of requests can't be compiled: see above")
    return sorted(each for each in target.rglob("*") if each.suffix in (".so", ".pyd"))


def compile_decoders(target: Path, modules: list[str]) -> None:
    """Compile the decoders of requests below `target`, thousands of lines.

    -O3 and symbols for debuggers would take minutes and megabytes.
    """
    extend(target, modules, "kohort_requests", opt_level="2", debug_level="0")


def extend(target: Path, modules: list[str], group: str, *, opt_level: str, debug_level: str) -> None:
    """Compile modules below `target` into a library with the group's name, and put extensions beside them."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    with tempfile.TemporaryDirectory() as scrap, working_in(target):
        extensions = mypycify(
            [*MYPY, f"--cache-dir={scrap}/cache", *modules],
            group_name=group,
            target_dir=f"{scrap}/c",
            opt_level=opt_level,
            debug_level=debug_level,
        )
        command = Distribution({"name": "kohort", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(target), f"{scrap}/objects"
        command.ensure_finalized()
        command.run()


def write_decoders(target: Path) -> list[str]:
    """Write the modules of the decoders of requests into `target`. Return their paths in it."""
    folder = Path("kohort/protocol/request_decoders")
    before = set((target / folder).glob("*.py"))
    command = [sys.executable, "-m", "kohort.protocol.request_decoders.module_writer", str(target / folder)]
    path = os.pathsep.join((str(target), *filter(None, (os.environ.get("PYTHONPATH"),))))
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    return sorted(str(each.relative_to(target)) for each in set((target / folder).glob("*.py")) - before)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Be in a folder, from which mypyc takes the names of modules."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":  # `make compiled` does it; `compile_into` names modules.
    folder, *decoders = sys.argv[1:]
    if decoders:
        compile_decoders(Path(folder), decoders)
    else:
        for each in compile_into(Path(folder).resolve(), Path(__file__).parent):
            print(each)
