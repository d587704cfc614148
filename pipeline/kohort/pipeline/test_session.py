"""What a session's driver writes to standard error."""

from collections.abc import Callable

import pytest

from kohort.pipeline.quiet_daemon import print_exc
from kohort.pipeline.session import QUIET_DAEMON, quietly

JAVA = "spark.driver.extraJavaOptions"


def test_a_quiet_session_keeps_its_settings() -> None:
    given = {JAVA: "-Xss4m -Dlog4j2.configurationFile=own", "spark.python.daemon.module": "own.daemon"}
    found = quietly(given, "local[2]")
    assert found["spark.python.daemon.module"] == "own.daemon"
    assert found[JAVA].startswith("-Dlog4j2.configurationFile=file:///")
    assert found[JAVA].endswith("/quiet.log4j2.properties -Xss4m -Dlog4j2.configurationFile=own")


def test_workers_of_a_cluster_are_started_as_ever() -> None:
    assert quietly({}, "local[*]")["spark.python.daemon.module"] == QUIET_DAEMON
    assert list(quietly({}, "spark://host:7077")) == [JAVA]


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error, lines", [(BrokenPipeError(32, "Broken pipe"), 0), (ConnectionError(""), 1), (ValueError(""), 1)]
)
def test_the_daemon_is_silent_only_on_closed_connections(
    capsys: pytest.CaptureFixture[str], error: Exception, lines: int
) -> None:
    try:
        failing(error)()
    except type(error):
        print_exc()
    assert capsys.readouterr().err.count("Traceback") == lines
