"""The blocking clients' methods are those of the asynchronous ones, with their signatures and docstrings."""

import inspect

import pytest

from kohort.client import Admin, ClusterConnection, Consumer, Producer, ShareConsumer, aio

PAIRS = [
    (Admin, aio.Admin),
    (ClusterConnection, aio.ClusterConnection),
    (Consumer, aio.Consumer),
    (Producer, aio.Producer),
    (ShareConsumer, aio.ShareConsumer),
]
ASYNCHRONOUS_ALONE = {"start", "stop", "given", "shared"}
BLOCKING_ALONE = {"close"}  # In asynchronous clients it is the end of the block, or `stop`.
TIMES = {"flush"}  # Elsewhere a scope of the caller's limits the time.


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("blocking, asynchronous", PAIRS)
def test_both_kinds_of_client_have_the_same_methods(blocking: type, asynchronous: type) -> None:
    assert public(blocking) - BLOCKING_ALONE == public(asynchronous) - BLOCKING_ALONE - ASYNCHRONOUS_ALONE


@pytest.mark.parametrize("blocking, asynchronous", PAIRS)
def test_a_method_has_the_same_parameters_in_both(blocking: type, asynchronous: type) -> None:
    for name in public(blocking) & public(asynchronous) - TIMES:
        method = getattr(blocking, name)
        if callable(method):
            found = inspect.signature(method).parameters
            expected = inspect.signature(getattr(asynchronous, name)).parameters
            assert list(found) == list(expected), name
            assert {each.default for each in found.values()} == {each.default for each in expected.values()}


@pytest.mark.parametrize("blocking", [pair[0] for pair in PAIRS])
def test_every_method_has_a_docstring_and_is_a_plain_function(blocking: type) -> None:
    for name in public(blocking):
        method = getattr(blocking, name)
        assert inspect.getdoc(method), name
        assert not inspect.iscoroutinefunction(method), name
        if callable(method):
            assert method.__name__ == name
