"""The garbage collector rests while it is told to, and goes on whatever comes."""

import gc

import pytest

from kohort.broker.runtime.garbage import without_collections


def fail_within() -> None:
    with without_collections():
        assert not gc.isenabled()
        raise ZeroDivisionError


def test_it_goes_on_behind_the_block_though_that_fails() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert gc.isenabled()


def test_what_had_stopped_it_before_decides_when_it_goes_on() -> None:
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
