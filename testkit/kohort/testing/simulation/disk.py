"""The disk of a simulated machine: a file system in memory, with faults that the simulation orders."""

from collections.abc import Callable
from weakref import WeakSet

from kohort.storage.memory_filesystem import MemoryFileSystem, Operation

Choose = Callable[[int], int]


class VirtualDisk:
    """The disk of one machine. Its file system is another one after each crash."""

    def __init__(self, choose: Choose) -> None:
        self.file_system = MemoryFileSystem()
        self.latency_ms = 1
        """How long a sync takes."""
        self._choose = choose
        self._on_sync: Callable[[], None] | None = None
        self._on_operation: Callable[[Operation], None] | None = None
        self._file_systems = WeakSet((self.file_system,))

    def let_go(self) -> None:
        """Close the files, those of before the crashes too."""
        for each in self._file_systems:
            each.close()

    @property
    def operations(self) -> int:
        """How many changes the file system has seen since it was last made."""
        return len(self.file_system.operations)

    def fill(self, left_bytes: int | None) -> None:
        """Let only that much more be written; None is without limit."""
        self.file_system.room_bytes = left_bytes

    def tell_syncs(self, on_sync: Callable[[], None]) -> None:
        """Call `on_sync` after each sync from now on."""
        self._on_sync = self.file_system.on_sync = on_sync

    def tell_operations(self, on_operation: Callable[[str, bytes], None]) -> None:
        """Call `on_operation` with words for each operation from now on, and with what it writes."""

        def tell(each: Operation) -> None:
            on_operation(f"{each.kind} {each.path} {each.target} {each.file} {each.position}", each.data)

        self._on_operation = self.file_system.on_operation = tell

    def interrupt_at(self, operation: int, action: Callable[[], None]) -> None:
        """Call `action` before a later operation of this process: 0 is the next one."""
        left = operation

        def count() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.file_system.interrupt = None
                action()

        self.file_system.interrupt = count

    def fail_sync(self, after: int | None, times: int = 1) -> None:
        """Let a sync fail soon, and those behind it, and lose what they should have kept.

        None takes that back.
        """
        self.file_system.syncs_until_failure = after
        self.file_system.failures_behind_it = 0 if after is None else times - 1

    def fail_folder(self, path: str) -> None:
        """Let files of a folder be neither opened nor synced, until `heal` or `mend_folder`."""
        self.file_system.failing_folders.add(path)

    def mend_folder(self, path: str) -> None:
        """Let the folder's files work again."""
        self.file_system.failing_folders.discard(path)

    def heal(self) -> None:
        """Let everything work again."""
        self.fill(None)
        self.fail_sync(None)
        self.file_system.failing_folders.clear()
        self.latency_ms = 1

    def become_new(self) -> None:
        """Be another disk, which is empty."""
        self._become(MemoryFileSystem())

    def lose_power(self, operations: int) -> None:
        """Keep what a machine finds that lost its power after `operations`: unsynced writes are at risk."""
        self._become(self.file_system.after_crash(operations, self._choose))

    def begin_process(self) -> None:
        """Give a new process the files as they are, without the locks of the one before."""
        self.lose_process(self.operations)

    def lose_process(self, operations: int) -> None:
        """Keep what was written up to there; what was not synced is as much at risk as before."""
        survivor = MemoryFileSystem()
        for operation in self.file_system.operations[:operations]:
            survivor.note(operation)
        self._become(survivor)

    def _become(self, survivor: MemoryFileSystem) -> None:
        survivor.room_bytes = self.file_system.room_bytes
        survivor.syncs_until_failure = self.file_system.syncs_until_failure
        survivor.failures_behind_it = self.file_system.failures_behind_it
        survivor.failing_folders = self.file_system.failing_folders
        survivor.on_sync = self._on_sync
        survivor.on_operation = self._on_operation
        self.file_system = survivor
        self._file_systems.add(survivor)
