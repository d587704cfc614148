"""Ends a process whose loop is blocked, so that another one takes over; its stack goes to standard error.

A thread checks every few seconds whether the loop has given a sign of life. It ends the process if the loop

- has computed for `stall_seconds` without one, or
- has waited in one call of the system for `BLOCKED_FACTOR` times as long: a disk may be slow for a while.

C code that computes, such as `re`, holds the interpreter's lock and lets no thread run: nobody checks. For
that a timer of the kernel (ITIMER_PROF) counts the CPU time of the process. The thread resets it at
each look. Where it runs down, `faulthandler` writes the stack without any lock, and the signal ends
the process. `faulthandler.dump_traceback_later` would count time on a clock.

A process that is stopped (SIGSTOP, a suspended laptop, a machine that is moved) computes nothing, and the
looks that it has missed are not made up for: time on a clock says nothing, and is not asked.
"""

import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

LOOK_SECONDS_MAX = 2.5
LOOKS_PER_STALL = 4
BLOCKED_FACTOR = 6
ORPHAN_SECONDS_MAX = 30.0
"""So long a worker whose supervisor is gone may take to end."""
WRITE_SECONDS_MAX = 5
"""The time limit for writing the stack: nobody may read it."""
EXIT_STATUS = 70  # EX_SOFTWARE.
HAS_TIMERS = hasattr(signal, "setitimer")
"""Windows has no timers of the kernel: there C code that holds the interpreter's lock ends nothing."""

Clock = Callable[[], float]


class Watchdog:
    """Watches the loop of one thread, from the first sign of life until `rest`."""

    def __init__(
        self,
        stall_seconds: float,
        *,
        parent: int | None = None,
        busy_seconds: Clock | None = None,
        end: Callable[[str], None] | None = None,
    ) -> None:
        """Watch the loop of the thread that calls this; `parent` is a process that this one must not outlive.

        `busy_seconds` says how long that thread has computed, and `end` ends the process and says why.
        """
        self.look_seconds: Final = min(LOOK_SECONDS_MAX, stall_seconds / LOOKS_PER_STALL)
        self._stall_seconds = stall_seconds
        self._parent = parent
        self._busy_seconds = busy_seconds or _clock_of_this_thread()
        self._end = end or end_process
        self._beats = 0
        self._is_watching = False
        self._seen = 0
        self._busy_since = 0.0
        self._looks = 0  # Since the last sign of life.
        self._looks_alone = 0  # Since the parent has gone.
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # -- called by the loop -------------------------------------------------------------------------------

    def beat(self) -> None:
        """Give a sign of life."""
        self._beats += 1
        self._is_watching = True

    def rest(self) -> None:
        """Expect no sign of life until the next one: the loop ends."""
        self._is_watching = False

    def start(self) -> None:
        """Begin to look."""
        with suppress(AttributeError, ValueError, OSError):  # A process may have no standard error.
            faulthandler.register(signal.SIGPROF, file=2, all_threads=True, chain=True)
        self._wind_up()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if HAS_TIMERS:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.unregister(signal.SIGPROF)

    # -- run by the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(self.look_seconds):
            self._wind_up()
            self.look()

    def _wind_up(self) -> None:
        """Set the kernel's timer to a stall plus the CPU time of all threads between two checks.

        How many threads there are now says nothing about that: many may begin right after this look.
        """
        if not HAS_TIMERS:
            return
        processors = os.cpu_count() or 1
        signal.setitimer(signal.ITIMER_PROF, self._stall_seconds + processors * self.look_seconds)

    def look(self) -> None:
        """End the process if its loop is blocked, or its parent ended long ago."""
        if self._parent is not None and os.getppid() != self._parent:
            self._looks_alone += 1
            if self._looks_alone * self.look_seconds >= ORPHAN_SECONDS_MAX:
                self._end("the supervisor is gone, and this worker does not end")
        beats = self._beats
        if beats != self._seen or not self._is_watching:
            self._seen, self._looks, self._busy_since = beats, 0, self._busy_seconds()
            return
        self._looks += 1
        busy_seconds = self._busy_seconds() - self._busy_since
        if busy_seconds >= self._stall_seconds:
            self._end(f"the event loop has computed for {busy_seconds:.0f} s and served nobody")
        elif self._looks * self.look_seconds >= self._stall_seconds * BLOCKED_FACTOR:
            waited_seconds = self._looks * self.look_seconds
            self._end(f"the event loop has waited for {waited_seconds:.0f} s and served nobody")


def _clock_of_this_thread() -> Clock:
    """Return the CPU time of this thread; if the system cannot tell, that of the process."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)


def end_process(why: str) -> None:
    """Write why, and the stack of each thread, and end the process at once: its locks go with it."""
    if HAS_TIMERS:
        signal.alarm(WRITE_SECONDS_MAX)  # It ends the process as well, if nobody reads the output.
    with suppress(Exception):  # If nothing can be written, the process ends all the same.
        assert sys.__stderr__ is not None
        descriptor = sys.__stderr__.fileno()
        if select.select([], [descriptor], [], 1.0)[1]:
            os.write(descriptor, f"kohort: {why}; this process ends. Its stack:\n".encode())
            faulthandler.dump_traceback(file=descriptor, all_threads=True)
    os._exit(EXIT_STATUS)
