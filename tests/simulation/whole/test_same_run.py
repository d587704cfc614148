"""A seed is one run in any process: the same messages, disk operations and changes of etcd."""

import asyncio
import gc
import importlib
import locale
import logging
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path
from uuid import uuid4

import pytest
import structlog
import trio

from kohort.broker.group.partition import coordinator_partition
from kohort.broker.handlers.data import fetch_wait
from kohort.client.partitioner import partition_for_short_key
from tests.hash_seeds import under_hash_seeds
from tests.repetitions import repetitions
from tests.simulation.whole.scenario import SCENARIOS, Shape, play

SECONDS = {"one": 15.0, "three": 20.0}
LINES_SHOWN = 10
SEEDS = {"one": (5,), "three": (8, 2)}


def fingerprint(scenario: str, seed: int, trace: Path | None = None) -> str:
    """Return a hash of all that happens in a run. The file `trace` gets all of it, line by line."""
    lines: list[str] = []
    played = play(scenario, seed, Shape(SECONDS[scenario]), on_line=lines.append)
    assert played.error is None, played.world.story_told
    if trace is not None:
        trace.write_text("".join(lines))
    return played.world.fingerprint


def first_difference(here: Path, there: Path) -> str:
    """Return the first lines in which two runs differ, and those before them."""
    lines, others = here.read_text().splitlines(), there.read_text().splitlines()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False)))
    parts = (
        ["the runs differ behind", *lines[max(0, same - LINES_SHOWN) : same]],
        ["here:", *lines[same : same + LINES_SHOWN]],
        ["there:", *others[same : same + LINES_SHOWN]],
    )
    return "\n".join(line for part in parts for line in part)


@pytest.mark.parametrize("scenario", list(SCENARIOS)[: repetitions(1, by_night=2)])
def test_a_seed_is_one_run_in_each_process_and_under_each_hash_seed(scenario: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for seed in SEEDS[scenario]:
        found = fingerprint(scenario, seed, here)  # This process has run other things before.
        code = (
            f"from pathlib import Path; from {__name__} import fingerprint;"
            f" print(fingerprint({scenario!r}, {seed}, Path({str(there)!r})))"
        )
        assert under_hash_seeds(code) == {found}, first_difference(here, there)


def test_the_first_difference_between_two_runs_is_shown(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("one\ntwo\nthree\n")
    there.write_text("one\nfour\nthree\n")
    expected = "the runs differ behind\none\nhere:\ntwo\nthree\nthere:\nfour\nthree"
    assert first_difference(here, there) == expected


def test_a_seed_is_one_run_whatever_its_process_has_done_and_does_meanwhile() -> None:
    before = fingerprint("one", 5)
    with another_process():
        assert fingerprint("one", 5) == before


@contextmanager
def another_process() -> Iterator[None]:
    """Let all that one Python process shares between its runs be other than before, and a thread be busy."""
    for name in ("http.server", "xml.dom.minidom", "multiprocessing.pool", "email.generator"):
        importlib.import_module(name)
    importlib.import_module("tests.simulation.world")  # The other simulation changes limits for its runs.
    for number in range(3_000):
        coordinator_partition(f"group-{number}", 2)
        partition_for_short_key(b"%d" % number, 3)
        next(fetch_wait._numbers)
    asyncio.run(_many_tasks())
    trio.run(_many_trio_tasks)
    state, thresholds, level = random.getstate(), gc.get_threshold(), logging.root.level
    configuration, language = structlog.get_config(), locale.setlocale(locale.LC_ALL)
    with ExitStack() as undone, pytest.MonkeyPatch.context() as patched:
        undone.callback(random.setstate, state)
        undone.callback(gc.set_threshold, *thresholds)
        undone.callback(logging.root.setLevel, level)
        undone.callback(structlog.configure, **configuration)
        undone.callback(locale.setlocale, locale.LC_ALL, language)
        random.seed(17)
        gc.set_threshold(50)
        logging.root.setLevel(logging.DEBUG)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        locale.setlocale(locale.LC_ALL, "C")
        patched.setenv("TZ", "Asia/Tokyo")
        patched.setenv("http_proxy", "http://127.0.0.1:1")
        time.tzset()
        undone.callback(time.tzset)
        with _busy_thread():
            yield


async def _many_tasks() -> None:
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(500)))


async def _many_trio_tasks() -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(500):
            nursery.start_soon(trio.lowlevel.checkpoint)


@contextmanager
def _busy_thread() -> Iterator[None]:
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.001):
            cycles: list[list[object]] = [[random.random(), uuid4(), os.urandom(4), time.time()]]
            for each in cycles:
                each.append(each)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_another_seed_is_another_run() -> None:
    assert fingerprint("one", 6) != fingerprint("one", 7)
