"""A hundred tests with a broker of their own each, in a run of pytest as a user has it on two cores."""

import resource
import time

import pytest

pytest_plugins = ["pytester"]

SECONDS_MAX = 15.0
CORES = 2
TESTS = """
    import pytest
    from confluent_kafka import Consumer, Producer

    @pytest.mark.parametrize("number", range(100))
    def test_what_is_written_is_read(number, kohort_broker):
        producer = Producer({"bootstrap.servers": kohort_broker.bootstrap})
        producer.produce("orders", b"%d" % number)
        assert producer.flush(10) == 0
        [record] = kohort_broker.records("orders")
        assert record.value == b"%d" % number
"""


def test_a_hundred_tests_with_a_fresh_broker_each_take_less_than_15_seconds(
    pytester: pytest.Pytester,
) -> None:
    """Where others have the cores as well, the CPU time that it took counts, spread over two of them."""
    pytester.makepyfile(TESTS)
    began, computed = time.perf_counter(), cpu_seconds()
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--numprocesses", str(CORES))
    took, computed = time.perf_counter() - began, cpu_seconds() - computed
    result.assert_outcomes(passed=100)
    assert min(took, computed / CORES) < SECONDS_MAX, (took, computed)


def cpu_seconds() -> float:
    """Return what the processes that this one has waited for have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
