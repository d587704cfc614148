"""A blocking producer whose calls are interrupted anywhere, and one whose sender fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.client import ClosedError, KohortError, Producer
from kohort.client.sender import Sender
from kohort.client.test_interrupted_sends import Tracer

PATIENCE_S = 30.0
MakeTopic = Callable[[int], str]
IN_A_CALL = ("blocking/producer.py", "loop_thread.py", "producer_session.py")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_send_interrupted_anywhere_leaves_a_working_producer(
    bootstrap: str, topic: MakeTopic, is_known: bool
) -> None:
    name = topic(1)
    at = 0
    has_raised = True
    while has_raised:
        with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            if is_known:
                producer.send(name, b"first").result(PATIENCE_S)
            tracer = Tracer(at, IN_A_CALL)
            has_raised = tracer.run(lambda: producer.send(name, b"interrupted"))
            assert producer.send(name, b"after").result(PATIENCE_S), tracer.where
        at += 1
    assert at > (5 if is_known else 20)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_producer_whose_sender_failed_raises_an_error(
    bootstrap: str, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(self: Sender) -> int | None:
        raise MemoryError

    name = topic(1)
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=200)
    waiting = producer.send(name, b"")
    with monkeypatch.context() as patched:
        patched.setattr(Sender, "step", no_memory)
        with pytest.raises(KohortError):
            waiting.result(PATIENCE_S)
    producer._loop._thread.join(PATIENCE_S)
    with pytest.raises(ClosedError) as caught:
        producer.send(name, b"")
    assert caught.value.__cause__ is not None
    producer.close()
