"""The garbage collector is paused for a block, and resumed after any end of it."""

import gc

import pytest

from kohort.broker.runtime.garbage import without_collections


def fail_within() -> None:
    with without_collections():
        assert not gc.isenabled()
        raise ZeroDivisionError


def test_collection_continues_after_the_block_even_if_it_fails() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert gc.isenabled()


def test_a_nested_block_does_not_enable_collection() -> None:
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
