"""A file system in memory for tests: it can lose unsynced bytes, tear writes, fill up and fail.

It keeps the list of all changing operations. `after_crash` makes the file system that is found
if the machine, or only the process, dies after any one of them.
"""

import errno
import os
from collections.abc import Callable, Sequence

import msgspec

from kohort.storage.filesystem import OsFile, StrPath
from kohort.storage.operating_system import Buffer
from kohort.storage.privacy import Privacy

Choose = Callable[[int], int]  # Returns a number from 0 up to, not including, its argument.


class Operation(msgspec.Struct, frozen=True):
    """One operation: `path` and `target` for names, `file` for a content."""

    kind: str
    path: str = ""
    target: str = ""
    file: int = -1
    position: int = 0
    data: bytes = b""


class MemoryFile:
    """One file's content. A descriptor, of Linux's anonymous kind, is made only on request."""

    def __init__(self, file_system: "MemoryFileSystem", number: int) -> None:
        self._file_system = file_system
        self._mirror: OsFile | None = None
        self._empty: OsFile | None = None
        self.number = number
        self.content = bytearray()

    @property
    def file_descriptor(self) -> int:
        """The descriptor for `os.pread` and `os.sendfile`: it shows the content from now on.

        While reads fail it shows an empty file, as `os.pread` itself cannot be made to fail.
        """
        try:
            self._file_system.before_read()
        except OSError:
            self._empty = OsFile(os.memfd_create("kohort"))
            return self._empty.file_descriptor
        if self._mirror is None:
            self._mirror = OsFile(os.memfd_create("kohort"))
            self._mirror.write_at([self.content], 0)
        return self._mirror.file_descriptor

    def close_descriptors(self) -> None:
        """Close the descriptors that `file_descriptor` has made; a later request makes another one."""
        self._mirror = self._empty = None

    def size(self) -> int:
        """How many bytes it holds."""
        return len(self.content)

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position` on; fewer only at the end. Raises: OSError if ordered."""
        self._file_system.before_read()
        return bytes(self.content[position : position + size])

    def write_at(self, parts: Sequence[Buffer], position: int) -> None:
        """Write all `parts` consecutively; bytes without space are not written, and an error is raised."""
        data = b"".join(parts)
        room = self._file_system.take_room(position + len(data) - len(self.content))
        written = data[: len(data) + room] if room < 0 else data
        self._file_system.note(Operation("write", file=self.number, position=position, data=written))
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        if size != len(self.content):
            self._file_system.note(Operation("truncate", file=self.number, position=size))

    def sync(self) -> None:
        """Return when everything written is on the disk. Raises: OSError when a failure was ordered."""
        self._file_system.fail_sync_if_ordered(self)
        self._file_system.note(Operation("sync", file=self.number))
        if self._file_system.on_sync is not None:
            self._file_system.on_sync()

    def reread(self) -> None:
        """Sync, and show the content of the disk: without bytes that failed syncs have lost."""
        self.sync()
        dropped = _lost(self._file_system.operations)
        if any(self._file_system.operations[place].file == self.number for place in dropped):
            self._file_system.forget_lost(self)

    def rebuild(self, operations: Sequence[Operation]) -> None:
        """Show what these operations have left on the disk."""
        dropped = _lost(operations)
        self.content.clear()
        for place, each in enumerate(operations):
            if each.file == self.number and each.kind in _CONTENT_KINDS and place not in dropped:
                self.apply(each)

    def apply(self, operation: Operation) -> None:
        """Apply the operation to the content."""
        if operation.kind == "write":
            missing = operation.position - len(self.content)
            if missing > 0:
                self.content.extend(bytes(missing))
            self.content[operation.position : operation.position + len(operation.data)] = operation.data
        else:
            size = operation.position
            self.content[size:] = bytes(max(0, size - len(self.content)))
        if self._mirror is not None:
            self._mirror.truncate(0)
            self._mirror.write_at([self.content], 0)


class MemoryFileSystem:
    """Folders and files by their paths, all in memory."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.room_bytes: int | None = None  # None: the disk never fills.
        self.syncs_until_failure: int | None = None  # None: no sync fails.
        self.failures_behind_it = 0  # How many syncs after that one fail as well.
        self.failing_folders: set[str] = set()
        """Folders whose files can be neither opened nor synced."""
        self.interrupt: Callable[[], None] | None = None
        """Called before each operation: simulates other threads."""
        self.on_sync: Callable[[], None] | None = None
        """Called after each sync."""
        self.on_operation: Callable[[Operation], None] | None = None
        """Called with each operation once it is done."""
        self._names: dict[str, MemoryFile | None] = {}  # A folder is None.
        self._files: list[MemoryFile] = []
        self._locked: set[str] = set()

    def close(self) -> None:
        """Close the descriptors of all files: otherwise they stay until the next garbage collection."""
        for file in self._files:
            file.close_descriptors()

    def before_read(self) -> None:
        """Called before every read of a file, to fail it by raising OSError."""

    def take_room(self, size: int) -> int:
        """Return the space left after `size` bytes more; below 0 if they do not fit."""
        if self.room_bytes is None or size <= 0:
            return 0
        left = self.room_bytes - size
        self.room_bytes = max(0, left)
        return left

    def fail_sync_if_ordered(self, file: MemoryFile) -> None:
        """Raise EIO, as often as ordered. Unsynced bytes count as lost from then on."""
        if self.failing_folders and self._is_in_failing_folder(file):
            self.note(Operation("lost", file=file.number))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.syncs_until_failure is None:
            return
        self.syncs_until_failure -= 1
        if self.syncs_until_failure < 0:
            self.syncs_until_failure = 0 if self.failures_behind_it else None
            self.failures_behind_it = max(0, self.failures_behind_it - 1)
            self.note(Operation("lost", file=file.number))
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _is_in_failing_folder(self, file: MemoryFile) -> bool:
        return any(
            named is file and os.path.dirname(name) in self.failing_folders
            for name, named in self._names.items()
        )

    def forget_lost(self, file: MemoryFile) -> None:
        """Let the cache show only what the disk has of a file, now and after a later crash."""
        operation = Operation("reread", file=file.number)
        self.operations.append(operation)
        self._apply(operation)

    def note(self, operation: Operation) -> None:
        """Do the operation, and keep it in the list."""
        if self.interrupt is not None and operation.kind != "create":
            self.interrupt()
        self.operations.append(operation)
        self._apply(operation)
        if self.on_operation is not None:
            self.on_operation(operation)

    def _apply(self, operation: Operation) -> None:
        match operation.kind:
            case "create":
                file = MemoryFile(self, operation.file)
                self._files.append(file)
                assert self._files[operation.file] is file
                if operation.path:
                    self._names[operation.path] = file
            case "make":
                self._names[operation.path] = None
            case "rename":
                self._rename(operation.path, operation.target)
            case "remove":
                self._names.pop(operation.path, None)
            case "write" | "truncate":
                self._files[operation.file].apply(operation)
            case "reread":
                self._files[operation.file].rebuild(self.operations)

    def _rename(self, source: str, target: str) -> None:
        moved = self._names.get(source)
        if moved is not None:  # A file, as most are: nothing is inside.
            self._names[target] = self._names.pop(source)
            return
        inside = f"{source}/"
        for name in [name for name in self._names if name == source or name.startswith(inside)]:
            self._names[target + name[len(source) :]] = self._names.pop(name)

    def _file(self, path: StrPath) -> MemoryFile | None:
        return self._names.get(os.fspath(path))

    def open(self, path: StrPath, *, create: bool = False) -> MemoryFile:
        """Return the file; with `create` it is created if missing."""
        if self.failing_folders and os.path.dirname(path) in self.failing_folders:
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(path))
        file = self._file(path)
        if file is None:
            if not create or os.path.dirname(path) not in self._names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            if self.interrupt is not None:
                self.interrupt()
            self.note(Operation("create", os.fspath(path), file=len(self._files)))
            file = self._file(path)
            assert file is not None
        return file

    def read(self, path: StrPath) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        file = self._file(path)
        return None if file is None else bytes(file.content)

    def size(self, path: StrPath) -> int | None:
        """Return how many bytes a file holds, None when there is no such file."""
        file = self._file(path)
        return None if file is None else file.size()

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        """Give the file a new content at once or, after a crash, not at all."""
        temporary = f"{os.fspath(path)}.tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        file.write_at([content], 0)
        if sync:
            file.sync()
        self.rename(temporary, path)

    def list_directory(self, path: StrPath) -> list[str] | None:
        """Return the names in a folder, None when there is no such folder."""
        if os.fspath(path) not in self._names:
            return None
        inside = f"{os.fspath(path)}/"
        found = (name[len(inside) :] for name in self._names if name.startswith(inside))
        return [name for name in found if "/" not in name]

    def make_directory(self, path: StrPath) -> None:
        """Create the folder and its parents if they are missing."""
        text = os.fspath(path)
        if text not in self._names:
            parent = os.path.dirname(text)
            if parent != text:
                self.make_directory(parent)
            self.note(Operation("make", text))

    def close_to_others(self, path: StrPath) -> Privacy:
        """Return that there are no other users."""
        return Privacy()

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Give a file or a folder another name in the same folder."""
        text = os.fspath(source)
        if text not in self._names and not any(name.startswith(f"{text}/") for name in self._names):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        self.note(Operation("rename", os.fspath(source), os.fspath(target)))

    def remove(self, path: StrPath) -> None:
        """Remove a file; a missing file is no error."""
        if self._file(path) is not None:
            self.note(Operation("remove", os.fspath(path)))

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty folder; a missing folder is no error."""
        if os.fspath(path) in self._names:
            self.note(Operation("remove", os.fspath(path)))

    def sync_directory(self, path: StrPath) -> None:
        """Return once the names in a folder are on the disk."""
        self.note(Operation("sync folder", os.fspath(path)))

    def lock(self, path: StrPath) -> object | None:
        """Return a lock, None when another `lock` has it: the set keeps the lock itself."""
        text = os.fspath(path)
        if text in self._locked:
            return None
        self.open(path, create=True)
        lock = _Lock(self._locked, text)
        self._locked.add(text)
        return lock

    def after_crash(self, count: int | None = None, choose: Choose | None = None) -> "MemoryFileSystem":
        """Return the file system after the first `count` operations (all of them by default).

        Without `choose` the process died and the machine did not: everything is there. With it the machine
        died:
        each unsynced write is there, missing, or there up to some byte, and names changed since
        their folder was synced are there up to some change.
        """
        done = self.operations[:count]
        survivor = MemoryFileSystem()
        for operation in done if choose is None else _survivors(done, choose):
            survivor.note(operation)
        survivor.operations = survivor._settled()
        return survivor

    def _settled(self) -> list[Operation]:
        """Return synced operations that produce the present content: after a crash the past is settled."""
        folders = [name for name, file in self._names.items() if file is None]
        named = {name: file for name, file in self._names.items() if file is not None}
        self._files = list(named.values())
        operations = [Operation("make", name) for name in folders]
        for number, (name, file) in enumerate(named.items()):
            file.number = number
            operations.append(Operation("create", name, file=number))
            operations.append(Operation("write", file=number, data=bytes(file.content)))
            operations.append(Operation("sync", file=number))
        return operations + [Operation("sync folder", name) for name in folders]


class _Lock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def __del__(self) -> None:
        self._locked.discard(self._path)


_CONTENT_KINDS = ("write", "truncate")
_NAME_KINDS = ("create", "make", "rename", "remove")


def _survivors(done: list[Operation], choose: Choose) -> list[Operation]:
    """Return the operations that a machine's death left, in their order.

    Changes of names are one journal, as in real file systems: syncing a folder keeps all earlier ones.
    A content is kept up to the file's last sync; a failed sync has lost the bytes that it covered.
    """
    last_folder_sync = max(
        (place for place, each in enumerate(done) if each.kind == "sync folder"), default=0
    )
    journal_end = last_folder_sync + choose(len(done) - last_folder_sync + 1)
    synced = {each.file: place for place, each in enumerate(done) if each.kind == "sync"}
    dropped = _lost(done)
    left: list[Operation] = []
    for place, each in enumerate(done):
        if each.kind in _NAME_KINDS:
            if place <= journal_end:
                left.append(each)
            elif each.kind == "create":  # Without a name, so that the numbers of the files do not change.
                left.append(msgspec.structs.replace(each, path=""))
        elif each.kind in ("write", "truncate") and place not in dropped:
            if place < synced.get(each.file, -1):
                left.append(each)
            else:
                left += _torn(each, choose)
    return left


def _lost(done: Sequence[Operation]) -> set[int]:
    """Return the places of the writes that a failed sync should have kept."""
    synced: dict[int, int] = {}
    lost: set[int] = set()
    for place, each in enumerate(done):
        if each.kind == "sync":
            synced[each.file] = place
        elif each.kind == "lost":
            start = synced.get(each.file, -1)
            lost.update(p for p in range(start + 1, place) if done[p].file == each.file and done[p].data)
    return lost


def _torn(operation: Operation, choose: Choose) -> list[Operation]:
    """Return the operation, or nothing, or a part of it."""
    fate = choose(3)
    if fate == 0:
        return []
    if fate == 1 or operation.kind == "truncate":
        return [operation]
    return [msgspec.structs.replace(operation, data=operation.data[: choose(len(operation.data) + 1)])]
