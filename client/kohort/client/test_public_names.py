import subprocess
import sys

from tests.import_cost import calls_of


def test_the_admin_is_imported_without_the_consumer() -> None:
    text = "import sys, kohort.client; kohort.client.Admin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "kohort.client.admin" in done.stdout.split()
    assert "kohort.client.consumer_session" not in done.stdout.split()


def test_importing_the_consumer_loads_few_modules() -> None:
    text = "import sys; from kohort.client import Consumer; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"argparse", "difflib", "email", "trio", "zipfile", "kohort.protocol.messages.create_topics"}
    assert not loaded & heavy, loaded & heavy


def test_importing_the_consumer_calls_few_functions() -> None:
    """Asyncio is a part of it. Seconds would measure the other work of the machine."""
    assert calls_of("from kohort.client import Consumer") < 4 * calls_of("import asyncio")


def test_warnings_are_printed_by_default_and_one_line_silences_them() -> None:
    text = "import logging, kohort.client; logging.getLogger('kohort.client.sender').warning('gone')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr == "gone\n"
    line = "logging.getLogger('kohort.client').setLevel(logging.ERROR)"
    quiet = text.replace("logging.getL", f"{line}; logging.getL", 1)
    done = subprocess.run([sys.executable, "-c", quiet], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_asyncio_users_do_not_import_trio() -> None:
    text = """
import sys, anyio
from kohort.client import aio
async def main():
    async with aio.Consumer(bootstrap_servers="127.0.0.1:1"), aio.Producer(bootstrap_servers="127.0.0.1:1"):
        pass
anyio.run(main, backend="asyncio")
print("trio" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
