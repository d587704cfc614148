"""A headless Chromium that a test steers by its debugging protocol, over two pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-pipe", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--force-prefers-reduced-motion", "--hide-scrollbars"),
)
ANSWER_SECONDS = 60.0
WAIT_SECONDS = 30.0


def find_chromium() -> str | None:
    """Return the program, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page in a browser of its own. What the page has logged or was refused is in `complaints`."""

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        self._process = _launch(program, folder, to_browser, from_browser)
        os.close(to_browser)
        os.close(from_browser)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requested: list[str] = []

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)

    def open(self, url: str) -> None:
        """Begin to load a page."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return what an expression gives in the page. Raises: AssertionError where it throws."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, what: str) -> Any:
        """Return what an expression gives once it is true. Raises: AssertionError with the page's text."""
        return until(lambda: self.run(script), lambda: f"{what}:\n{self.text}\n{self.complaints}")

    @property
    def text(self) -> str:
        """What the page shows."""
        text: str = self.run("document.body ? document.body.innerText : ''")
        return text

    def press(self, key: str) -> None:
        """Press a key."""
        text = "\r" if key == "Enter" else key
        for kind, typed in (("keyDown", text), ("keyUp", "")):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=typed)

    def resize(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """Give the window a size, and the page a scheme of colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = "dark" if is_dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self) -> bytes:
        """Return what the window shows, as PNG."""
        data: str = self.call("Page.captureScreenshot", format="png")["data"]
        return base64.b64decode(data)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Return the answer to one call of the protocol. Raises: AssertionError."""
        number = next(self._ids)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (told := self._receive()).get("id") != number:
            self._note(told)
        assert "error" not in told, f"{method}: {told['error']}"
        result: dict[str, Any] = told["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        method, parameters = told.get("method"), told.get("params", {})
        if method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog: {parameters['message']}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])


def until(condition: Callable[[], Any], words: Callable[[], str]) -> Any:
    """Return what a condition gives as soon as it is true. Raises: AssertionError after a while."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, words()
        time.sleep(0.05)
    return found


def _launch(program: str, folder: Path, read_from: int, write_to: int) -> subprocess.Popen[bytes]:
    """Start the browser; it reads its descriptor 3 and writes to 4."""
    inner = f'exec 3<&{read_from} 4>&{write_to}; exec "$0" "$@"'
    command = ["bash", "-c", inner, program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    return subprocess.Popen(
        command, pass_fds=(read_from, write_to), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
