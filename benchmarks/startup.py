"""Time from `exec` to the first answer of a broker with an empty data folder, and its idle memory.

python benchmarks/startup.py [RUNS]     ends with status 1 where a limit of the project is passed
"""

import platform
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_SECONDS_MAX = 0.5
IDLE_MEBIBYTES_MAX = 80.0
IDLE_SECONDS = 3.0
API_VERSIONS_0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def first_answer(port: int) -> None:
    """Ask the broker for its API versions, and wait for the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(API_VERSIONS_0)
        (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
        answer = sock.recv(size, socket.MSG_WAITALL)
        assert answer[:4] == b"\0\0\0\1", answer


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")


def run_once(*, idle_seconds: float) -> tuple[float, float]:
    """Return the seconds to the first answer, and the idle memory in MiB."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "kohort.broker", "--listen", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--data", data, "--log-level", "error"]
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            port = int(ready.split("kafka=")[1].split()[0].rpartition(":")[2])
            first_answer(port)
            seconds = time.perf_counter() - begin
            time.sleep(idle_seconds)  # Not a race: memory is read once HTTP has been imported too.
            return seconds, resident_mebibytes(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def main() -> int:
    """Print the figures of several runs; return 1 where a limit is passed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    run_once(idle_seconds=0)  # Compiles the modules without a .pyc.
    results = [run_once(idle_seconds=IDLE_SECONDS if number == 0 else 0) for number in range(runs)]
    seconds = sorted(each[0] for each in results)
    idle = results[0][1]
    print(f"Python {platform.python_version()}, {platform.machine()}, {runs} runs")
    print(f"start to first answer: {seconds[0]:.3f} / {statistics.median(seconds):.3f} / {seconds[-1]:.3f} s"
          f" (min / median / max; limit {START_SECONDS_MAX} s)")  # fmt: skip
    print(
        f"idle memory after {IDLE_SECONDS:.0f} s: {idle:.1f} MiB resident (limit {IDLE_MEBIBYTES_MAX:.0f} MB)"
    )
    return 0 if statistics.median(seconds) < START_SECONDS_MAX and idle < IDLE_MEBIBYTES_MAX / 1.048576 else 1


if __name__ == "__main__":
    sys.exit(main())
