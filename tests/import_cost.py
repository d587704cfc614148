"""What an import costs, as a number that no other program on the machine changes."""

import subprocess
import sys

COUNTING = """
import sys
calls = 0
def count(frame, what, argument):
    global calls
    calls += what in ("call", "c_call")
sys.setprofile(count)
exec(sys.argv[1])
sys.setprofile(None)
print(calls)
"""


def calls_of(text: str) -> int:
    """Return how many functions, Python's and C's, a fresh Python calls while it runs this."""
    command = [sys.executable, "-c", COUNTING]
    subprocess.run([*command, text], check=True, capture_output=True)  # So that modules are compiled.
    return int(subprocess.run([*command, text], check=True, capture_output=True, text=True).stdout)
