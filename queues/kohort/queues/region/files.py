"""Members' states as files, on whatever fsspec writes to: a folder, S3, GCS, Azure.

A state is one file `<states_url>/<region>/<key>`, with its key quoted. What the region's log says of it is
its checksum and its key, so that half a file is found out. fsspec has no types of its own.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import anyio.to_thread
from crc32c import crc32c

from kohort.client.errors import ConfigurationError, KohortError, MissingExtraError
from kohort.protocol.errors import ErrorCode
from kohort.queues.region.coordinating import Region
from kohort.queues.region.states import StateLostError


class StatesUnreachableError(KohortError):
    """The file store did not do what it was asked to; it may do so later."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class FileStates:
    """Keeps each state as a file. Calls of fsspec wait for disks or networks: they are made in threads.

    Raises: MissingExtraError without fsspec or what it needs for the address; ConfigurationError for an
    address that it does not know.
    """

    def __init__(self, region: Region) -> None:
        try:
            core: Any = import_module("fsspec.core")
            local: Any = import_module("fsspec.implementations.local")
            files, folder = core.url_to_fs(region.states_url)
        except ImportError as error:
            words = 'states in files need fsspec: pip install "kohort[queues]"'
            raise MissingExtraError(f"{words} ({error})") from error
        except ValueError as error:
            raise ConfigurationError(f"states_url is {region.states_url!r}: {error}") from None
        self._files: Any = files
        self._is_on_a_disk = isinstance(files, local.LocalFileSystem)
        self._folder = f"{folder.rstrip('/')}/{quote(region.name, safe='')}"

    async def __aenter__(self) -> Self:
        await self._call(partial(self._files.makedirs, self._folder, exist_ok=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the store as it is: there is nothing to be closed."""

    async def save(self, key: str, state: bytes) -> str:
        """Return where the state is, once it is kept. Raises: StatesUnreachableError."""
        await self._call(self._write, self._path(key), state)
        return f"{crc32c(state):08x}:{key}"

    async def load(self, saved: str) -> bytes:
        """Return the state that was saved there. Raises: StateLostError, StatesUnreachableError."""
        checksum, _, key = saved.partition(":")
        path = self._path(key)
        try:
            state: bytes = await self._call(self._files.cat_file, path)
        except FileNotFoundError:
            raise StateLostError(f"no state at {path}") from None
        if f"{crc32c(state):08x}" != checksum:
            raise StateLostError(f"the state at {path} is not what was saved")
        return state

    async def drop(self, saved: str) -> None:
        """Remove the file. Raises: StatesUnreachableError."""
        await self._call(self._remove, self._path(saved.partition(":")[2]))

    def _path(self, key: str) -> str:
        return f"{self._folder}/{quote(key, safe='')}"

    def _write(self, path: str, state: bytes) -> None:
        with self._files.open(path, "wb") as file:
            file.write(state)
            file.flush()
            if self._is_on_a_disk:
                os.fsync(file.fileno())
        if self._is_on_a_disk:
            sync_folder(self._folder)

    def _remove(self, path: str) -> None:
        try:
            self._files.rm_file(path)
        except FileNotFoundError:  # Done before, by a call whose answer was lost.
            return

    @staticmethod
    async def _call(function: Callable[..., Any], *arguments: object) -> Any:
        """Return what it does, in a thread that is left to itself when the caller's time is over."""
        try:
            return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StatesUnreachableError(str(error)) from error


def sync_folder(path: str) -> None:
    """Have the names in a folder outlive a loss of power. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
