"""A folder of small files, each complete or missing: on this machine, or wherever Spark writes."""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_SCHEME = "file:"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Folder(Protocol):
    """The file system operations that the jobs need."""

    @property
    def uri(self) -> str:
        """The folder's name as Spark takes it."""
        ...

    def child(self, name: str) -> Folder:
        """Return a folder in this one, there or not."""
        ...

    def names(self) -> set[str]:
        """Return the names of the files and folders in it, none if it does not exist."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name."""
        ...

    def read(self, name: str) -> str:
        """Return a file's text. Raises: FileNotFoundError."""
        ...

    def create(self, name: str, text: str) -> None:
        """Make a file with this text in one step. Raises: FileExistsError if another writer was first."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file or a whole folder; do nothing if there is none."""
        ...


class LocalFolder:
    """A folder on this machine; a file is on the disk when `create` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def uri(self) -> str:
        """The folder's path."""
        return str(self.path)

    def child(self, name: str) -> LocalFolder:
        """Return a folder in this one, there or not."""
        return LocalFolder(self.path / name)

    def names(self) -> set[str]:
        """Return the names of the files and folders in it, none if it does not exist."""
        try:
            return set(os.listdir(self.path))
        except FileNotFoundError:
            return set()

    def exists(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name."""
        return (self.path / name).exists()

    def read(self, name: str) -> str:
        """Return the text of a file; decoding never fails. Raises: FileNotFoundError."""
        return (self.path / name).read_text(encoding="utf-8", errors="replace")

    def create(self, name: str, text: str) -> None:
        """Make a file with this text in one step. Raises: FileExistsError if another writer was first."""
        self.path.mkdir(parents=True, exist_ok=True)
        own = self.path / _own_name(name)
        try:
            with own.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(own, self.path / name)  # Unlike a rename, a link never replaces an existing file.
        finally:
            own.unlink(missing_ok=True)
        _sync_folder(self.path)

    def delete(self, name: str) -> None:
        """Delete a file or a whole folder; do nothing if there is none."""
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _java_errors_are_os_errors(
    call: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return the call, whose errors from Java's side are OSErrors, as a folder's are on this machine."""

    @functools.wraps(call)
    def translated(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        from py4j.protocol import Py4JError  # noqa: PLC0415  # Who calls has a session, and so py4j.

        try:
            return call(*args, **named)
        except Py4JError as error:
            raise OSError(f"the file system said: {error}") from error

    return translated


class HadoopFolder:
    """A folder in a file system that Spark's Hadoop libraries know: HDFS, an object store.

    Every failure in Java or on the connection to it is an OSError.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri.rstrip("/")
        context: Any = spark.sparkContext  # Java's objects have the methods that their classes have there.
        self._path_class = context._jvm.org.apache.hadoop.fs.Path
        self._system = self._path().getFileSystem(context._jsc.hadoopConfiguration())

    @property
    def uri(self) -> str:
        """The folder's name as Spark takes it."""
        return self._uri

    def child(self, name: str) -> HadoopFolder:
        """Return a folder in this one, there or not."""
        return HadoopFolder(self._spark, f"{self._uri}/{name}")

    @_java_errors_are_os_errors
    def names(self) -> set[str]:
        """Return the names of the files and folders in it, none if it does not exist."""
        if not self._system.exists(self._path()):
            return set()
        return {each.getPath().getName() for each in self._system.listStatus(self._path())}

    @_java_errors_are_os_errors
    def exists(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name."""
        return bool(self._system.exists(self._path(name)))

    @_java_errors_are_os_errors
    def read(self, name: str) -> str:
        """Return a file's text. Raises: FileNotFoundError."""
        if not self.exists(name):
            raise FileNotFoundError(f"{self._uri}/{name}")
        stream = self._system.open(self._path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    @_java_errors_are_os_errors
    def create(self, name: str, text: str) -> None:
        """Make a file with this text in one step. Raises: FileExistsError if another writer was first."""
        if self.exists(name):
            raise FileExistsError(f"{self._uri}/{name}")
        own = self._path(_own_name(name))
        stream = self._system.create(own, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not self._system.rename(own, self._path(name)):  # Refused if the name exists.
            self._system.delete(own, False)
            raise FileExistsError(f"{self._uri}/{name}")

    @_java_errors_are_os_errors
    def delete(self, name: str) -> None:
        """Delete a file or a whole folder; do nothing if there is none."""
        self._system.delete(self._path(name), True)

    def _path(self, name: str = "") -> Any:
        return self._path_class(f"{self._uri}/{name}" if name else self._uri)


def open_folder(spark: SparkSession | None, uri: str) -> Folder:
    """Return the folder: on this machine if `uri` is a path or begins with `file:`, else through Hadoop.

    Raises: ValueError for another scheme without a Spark session.
    """
    if uri.startswith(LOCAL_SCHEME):
        return LocalFolder(Path("/" + uri.removeprefix(LOCAL_SCHEME).lstrip("/")))
    if "://" not in uri:
        return LocalFolder(Path(uri).absolute())
    if spark is None:
        raise ValueError(f"{uri!r} is not on this machine: it takes a Spark session to read it")
    return HadoopFolder(spark, uri)


def _own_name(name: str) -> str:
    """Return a name that no other writer uses, and that no reader takes for a data file."""
    return f".{name}.{uuid.uuid4().hex}"


def _sync_folder(path: Path) -> None:
    """Have the folder's names on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
