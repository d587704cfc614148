"""The plugin, in runs of pytest of its own."""

from pathlib import Path

import pytest

from tests.import_cost import calls_of

pytest_plugins = ["pytester"]

TWO_TESTS = """
    from kohort.client import Producer

    seen = []

    def write(broker, topic):
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(topic, value=b"one")

    def test_one(kohort_broker, kohort_topic):
        write(kohort_broker, kohort_topic)
        assert [each.value for each in kohort_broker.records(kohort_topic)] == [b"one"]
        seen.append((kohort_broker, kohort_topic))

    def test_two(kohort_broker, kohort_topic):
        assert kohort_broker.records(kohort_topic) == ()
        seen.append((kohort_broker, kohort_topic))

    def test_scope():
        (first, one), (second, two) = seen
        assert one != two
        assert one.startswith("test_one-")
        assert (first is second) == SAME
"""


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(code)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_each_test_has_a_broker_and_a_topic_of_its_own(pytester: pytest.Pytester) -> None:
    run(pytester, TWO_TESTS.replace("SAME", "False")).assert_outcomes(passed=3)


def test_a_project_sets_for_how_long_a_broker_lives(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkohort_broker_scope = session\n")
    run(pytester, TWO_TESTS.replace("SAME", "True")).assert_outcomes(passed=3)


def test_a_scope_that_there_is_not_is_said_to_be_wrong(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkohort_broker_scope = forever\n")
    result = run(pytester, "def test_one(kohort_broker): pass")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*kohort_broker_scope = forever: it must be one of function, class*"])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_names_of_parametrized_tests_become_names_of_topics(pytester: pytest.Pytester) -> None:
    code = """
        import pytest

        @pytest.mark.parametrize("word", ["a/b c", "ü" * 300])
        def test_one(word, kohort_topic):
            assert kohort_topic.startswith("test_one-")
    """
    run(pytester, code).assert_outcomes(passed=2)


def test_a_cluster_has_as_many_brokers_as_the_project_says_and_a_failure_tells_of_each(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nkohort_cluster_brokers = 2\nkohort_cluster_scope = module\n")
    code = """
        seen = []

        def test_one(kohort_cluster):
            assert len(kohort_cluster.brokers) == 2
            seen.append(kohort_cluster)

        def test_two(kohort_cluster):
            assert seen != [kohort_cluster]
    """
    result = run(pytester, code)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*- kohort -*", "broker 1: what the broker*", "broker 2: what the broker*"])
    pytester.makeini("[pytest]\nkohort_cluster_brokers = none\n")
    result = run(pytester, code)
    result.stdout.fnmatch_lines(["*kohort_cluster_brokers = none: it must be a number from 1 on*"])


def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    code = """
        import pytest
        from kohort.client import Producer

        @pytest.mark.parametrize("number", range(6))
        def test_one(number, kohort_broker):
            with Producer(bootstrap_servers=kohort_broker.bootstrap) as producer:
                producer.send("orders", value=b"one")
            assert len(kohort_broker.records("orders")) == 1
    """
    run(pytester, code, "--numprocesses", "2").assert_outcomes(passed=6)


def test_the_report_of_a_failure_says_what_the_broker_saw(pytester: pytest.Pytester) -> None:
    code = """
        from kohort.client import Producer

        def test_one(kohort_broker, kohort_topic):
            with Producer(bootstrap_servers=kohort_broker.bootstrap, client_id="billing") as producer:
                producer.send("orders", value=b"one")
            assert kohort_broker.records("orders") == ()
    """
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*- kohort -*", "*client 'billing': *Produce x1*", "*topic 'orders': 1 records*"]
    )


def test_who_does_not_use_it_imports_nothing_of_it(pytester: pytest.Pytester) -> None:
    code = """
        import sys

        def test_one():
            loaded = {name for name in sys.modules if name.startswith("kohort")}
            helper = {"kohort.protocol", "kohort.protocol.lazy_names"}
            assert loaded <= {"kohort", "kohort.testing", "kohort.testing.plugin"} | helper
            assert "structlog" not in sys.modules
    """
    run(pytester, code).assert_outcomes(passed=1)


def test_importing_the_plugin_calls_few_functions() -> None:
    """Seconds would measure the machine's other work."""
    before = "import pytest, re, uuid, typing, collections.abc"
    assert calls_of(f"{before}; import kohort.testing.plugin") < 1.05 * calls_of(before)


def test_the_entry_point_is_the_plugin() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nkohort = "kohort.testing.plugin"' in text


FAILING = """
    import pytest
    from kohort.client import Producer
    from kohort.testing import Broker, Cluster

    def send(broker):
        with Producer(bootstrap_servers=broker.bootstrap, client_id="<writer>") as producer:
            producer.send("orders", value=b"one")

    def test_with_a_fixture(kohort_broker):
        send(kohort_broker)
        assert not "of the fixture"

    def test_with_a_block():
        with Broker(topics=["orders"]) as broker:
            send(broker)
            broker.expect_commit(group="kitchen", topic="orders", offset=1, within_seconds=0)

    def test_with_a_cluster():
        with Cluster(brokers=1) as cluster:
            cluster.until(lambda: False, timeout=0)

    def test_that_passes():
        with pytest.raises(ZeroDivisionError):
            with Broker() as broker:
                raise ZeroDivisionError

    def test_without_a_broker():
        assert False
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_page_shows_what_the_brokers_of_failed_tests_saw(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--kohort-report", "out/page.html", *options
    )
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(["*kohort report: out/page.html*"])
    page = (pytester.path / "out" / "page.html").read_text(encoding="utf-8")
    assert "3 failed tests with a broker" in page
    assert "test_with_a_fixture (call)" in page
    assert "test_with_a_block (call)" in page
    assert "test_with_a_cluster (call)" in page
    assert "seen instead: there is no group" in page
    assert "topic &#x27;orders&#x27;: 1 records" in page
    assert page.count("&lt;writer&gt;") > 4
    assert "<writer>" not in page, "names of clients are text"
    assert "test_without_a_broker" not in page
    assert "ZeroDivisionError" not in page


def test_a_run_without_failures_writes_a_page_that_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--kohort-report", "page.html").assert_outcomes(
        passed=1
    )
    assert "No test with a broker has failed" in (pytester.path / "page.html").read_text(encoding="utf-8")
