"""Calls into the loop: any thread can post one and wake it.

`Loop` is the interface for the parts. `Mailbox` is the real one: a socket pair, one end of which the reactor
polls with its connections, so that it works wherever sockets do.
"""

import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

Action = Callable[[], None]

SIGNAL = b"\0"
SIGNALS_PER_READ = 4_096


class Loop(Protocol):
    """The part of the loop that other parts need."""

    is_in_round: bool
    """Whether a round is running: then the loop needs no wake-up."""

    def wake(self) -> None:
        """Begin a round soon. The loop's thread only."""
        ...

    def post(self, action: Action) -> None:
        """Let `action` run in the loop's thread, in one of the next rounds. Any thread."""
        ...


class Mailbox:
    """Actions for the loop, and a descriptor that is readable while there may be some."""

    def __init__(self, pair: tuple[socket.socket, socket.socket]) -> None:
        """The two sockets of `pair` are connected with each other."""
        self._receiver, self._sender = pair
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self.actions: deque[Action] = deque()
        """Posted calls, the oldest first. The loop's thread takes them."""
        self._closed = False
        self.is_in_round = False
        """Set by the loop."""

    def fileno(self) -> int:
        """Return the descriptor to poll for reading."""
        return self._receiver.fileno()

    def wake(self) -> None:
        """Begin a round soon, unless one is under way. The loop's thread only."""
        if not self.is_in_round:
            self._signal()

    def post(self, action: Action) -> None:
        """Let `action` run in the loop's thread. Any thread; after `close` nothing comes of it."""
        self.actions.append(action)
        self._signal()

    def _signal(self) -> None:
        if self._closed:
            return
        try:
            self._sender.send(SIGNAL)
        except BlockingIOError:
            return  # Full of signals that nobody has read yet: one more adds nothing.
        except OSError:
            if not self._closed:  # A thread may be about to signal while the loop closes.
                raise

    def drain(self) -> None:
        """Read the arrived signals, so that the descriptor is readable only for new ones."""
        try:
            self._receiver.recv(SIGNALS_PER_READ)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the descriptors."""
        self._closed = True
        self._receiver.close()
        self._sender.close()
