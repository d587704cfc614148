import importlib.util
import subprocess
import sys

import pytest

from tests.cli.here import Done, kohort

COMMAND = [sys.executable, "-m", "kohort.cli"]


def in_a_process(*arguments: str) -> Done:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


def test_serve_imports_only_the_broker() -> None:
    text = (
        "import sys\nstarted = []\n"
        "sys.addaudithook(lambda event, _: event == 'subprocess.Popen' and started.append(event))\n"
        "from kohort.cli.main import main\n"
        "try: main(['serve', '--help'])\nexcept SystemExit: pass\nprint('MODULES', *sys.modules, *started)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    modules = done.stdout.partition("MODULES")[2].split()
    assert "kohort.broker.main" in modules
    assert {"click", "anyio", "kohort.client", "asyncio", "rich", "ssl", "hashlib"}.isdisjoint(modules)
    assert "kohort.protocol.messages.create_topics" not in modules
    assert "subprocess.Popen" not in modules, "an import has started a process"
    of_clusters = (
        "kohort.broker.cluster",
        "kohort.broker.controller",
        "kohort.broker.etcd",
        "kohort.broker.replication",
    )
    assert [each for each in modules if each.startswith(of_clusters)] == []


def test_help_lists_every_command_without_importing_one() -> None:
    done = in_a_process("--help")
    assert done.returncode == 0
    for name in ("serve", "topics", "produce", "consume", "groups"):
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        *("topics", "topics list", "topics create", "topics describe", "topics delete", "topics alter"),
        *("produce", "consume", "groups", "groups list", "groups describe", "serve"),
    ],
)
def test_every_command_has_help(command: str) -> None:
    done = kohort(*command.split(), "--help")
    assert done.returncode == 0
    assert "usage:" in done.stdout.lower()


def test_a_wrong_command_suggests_and_returns_two() -> None:
    done = in_a_process("topcis")
    assert done.returncode == 2
    assert "No such command 'topcis'" in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["topics", "create"], "Missing argument 'NAME...'"),
        (["topics", "create", "t", "--partitions", "0"], "0 is not in the range"),
        (["topics", "create", "t", "--config", "x"], "--config 'x' is not NAME=VALUE"),
        (["topics", "alter", "t"], "nothing to alter"),
        (["topics", "list", "-b", "a b"], "'a b' is not an address"),
        (["-b", "a b", "topics", "list"], "'a b' is not an address"),
        (["-b", "a:1", "log", "dump", "."], "kohort log dump takes no --bootstrap-server"),
        (["-b", "a:1", "completion", "bash"], "kohort completion takes no --bootstrap-server"),
        (["produce", "t", "--acks", "7"], "'7' is not one of 'all', '1', '0'"),
        (["produce", "t", "--compression", "zip"], "'zip' is not one of"),
        (["produce", "t", "--file", "/does/not/exist"], "No such file or directory"),
        (["produce", "t", "--key-separator", ""], "--key-separator is empty"),
        (["consume", "t", "--format", "{x}"], "there is no field 'x'"),
        (["consume", "t", "--offset", "soon"], "give earliest, latest or a number"),
        (["consume", "t", "--group", "g", "--partition", "0"], "reading without --group"),
        (["consume", "t", "--from-beginning", "--offset", "3"], "not both"),
        (["consume", "t", "--json", "--format", "{key}"], "give --json or --format, not both"),
        (["consume", "t", "--max-messages", "0"], "0 is not in the range"),
        (["groups", "describe"], "give the names of groups, or --all-groups"),
        (["groups", "describe", "g", "--all-groups"], "give the names of groups, or --all-groups"),
        (["groups", "list", "--in-state", "Fine"], "'Fine' is not one of"),
    ],
)
def test_a_usage_error_names_the_right_use_and_returns_two(arguments: list[str], words: str) -> None:
    done = kohort(*arguments)
    assert done.returncode == 2, done
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failure_is_the_exit_status_of_the_process() -> None:
    arguments = ("topics", "list", "--bootstrap-server", "127.0.0.1:1")
    done = in_a_process(*arguments)
    assert done.returncode == 1
    assert done == kohort(*arguments)


@pytest.mark.parametrize(
    "command",
    ["topics list", "topics delete t", "produce t", "consume t", "groups list", "groups describe g"],
)
def test_an_unreachable_broker_is_reported_in_one_line_and_returns_one(command: str) -> None:
    done = kohort(*command.split(), "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr == (
        "kohort: no broker at 127.0.0.1:1 (Connection refused). Start one with: kohort serve\n"
    )


def test_the_environment_names_the_broker() -> None:
    done = kohort("topics", "list", environment={"KOHORT_BOOTSTRAP_SERVERS": "127.0.0.1:2,127.0.0.1:3"})
    assert "127.0.0.1:2 (Connection refused), 127.0.0.1:3 (Connection refused)" in done.stderr


@pytest.mark.parametrize("option", ["-b", "--bootstrap-server", "--bootstrap-servers"])
def test_the_bootstrap_option_can_precede_the_command(option: str) -> None:
    for command in ("produce t", "topics list", "groups describe g"):
        before = kohort(
            option, "127.0.0.1:1", *command.split(), environment={"KOHORT_BOOTSTRAP_SERVERS": "127.0.0.1:2"}
        )
        assert before == kohort(*command.split(), option, "127.0.0.1:1")
        assert "127.0.0.1:1 (Connection refused)" in before.stderr


def test_the_bootstrap_option_after_the_command_overrides_the_one_before() -> None:
    done = kohort("-b", "127.0.0.1:1", "topics", "list", "-b", "127.0.0.1:2")
    assert "no broker at 127.0.0.1:2 (" in done.stderr


def test_run_as_a_file_it_hides_no_module_of_the_standard_library() -> None:
    """As spark-submit runs it: Python puts the file's folder first on the path."""
    file = importlib.util.find_spec("kohort.cli.__main__")
    assert file is not None
    assert file.origin is not None
    program = (
        "import runpy, sys; path, sys.argv = sys.argv[1], ['kohort', 'version']\n"
        "sys.path.insert(0, path.rpartition('/')[0])\n"
        "try: runpy.run_path(path, run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "sys.modules.pop('queue', None); import queue; print(queue.SimpleQueue)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, file.origin], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("<class '_queue.SimpleQueue'>\n")
