"""Whether a data folder is the one of this broker's last registration, and has all acknowledged records.

`kohort-lives.json` names the newest two incarnations of the folder: the cluster knows one of both, since
an incarnation is written before it registers. A folder that may lack records gets another
directory id, before anybody sees it, and so leaves the in-sync replicas like one that came back empty.
"""

from threading import Lock
from uuid import UUID, uuid4

import msgspec
import structlog

from kohort.broker.replication import Found, has_all
from kohort.storage import DataDirectory, StorageError

FILE_NAME = "kohort-lives.json"
FORMER_MAX = 8

log = structlog.get_logger("kohort.cluster")


class Lives(msgspec.Struct, frozen=True):
    """The content of the file."""

    lives: tuple[UUID, ...] = ()
    """The newest first."""
    boot_id: str = ""
    """Another one each time that the machine starts."""
    former_directories: tuple[UUID, ...] = ()
    """The newest first; an entry equal to the folder's current id is one that it was about to lose."""
    has_unsynced: bool = True
    """Whether unsynced records may have been acknowledged on which other brokers count.

    Written before the first of them is, whatever the settings say later. A file without it is of an older
    version, which used the settings of the start.
    """


class FolderLife:
    """One incarnation of a data folder in a cluster."""

    def __init__(self, data: DataDirectory, last_registered: UUID | None, boot_id: str) -> None:
        """`last_registered` is the incarnation that the cluster knows, None if it knows none.

        Raises: StorageError.
        """
        self._data = data
        self._last_registered = last_registered
        self._boot_id = boot_id
        self._known = self._read()
        self._writing = Lock()
        self._is_new = data.directory_id is None
        self.incarnation_id = uuid4()
        data.ensure_directory_id(uuid4())

    @property
    def directory_id(self) -> UUID:
        """The folder's id."""
        directory_id = self._data.directory_id
        assert directory_id is not None
        return directory_id

    @property
    def former_directories(self) -> tuple[UUID, ...]:
        """The ids that the folder had before it lost something."""
        return tuple(each for each in self._known.former_directories if each != self.directory_id)

    def begin(self, *, is_short: bool) -> None:
        """Write this incarnation; with another directory id if the folder may lack records.

        Every replicated log was opened, so that all of it is synced by now. `is_short` tells
        that one lacks records that were on the disk. Raises: StorageError.
        """
        last = self._last_registered
        found = Found(
            was_stopped=self._data.is_clean,
            is_last_life=last is None or last in self._known.lives,
            is_same_boot=bool(self._boot_id) and self._boot_id == self._known.boot_id,
            is_synced=not self._known.has_unsynced,
            is_short=is_short,
        )
        if not self._is_new and not has_all(found):
            self._renew(found)
        lives = (self.incarnation_id, *((last,) if last is not None else self._known.lives[:1]))
        self._write(lives=lives, boot_id=self._boot_id, has_unsynced=False)

    def note_unsynced(self, has_unsynced: bool) -> None:
        """Keep on the disk whether something others count on is not synced. Blocks. Raises: StorageError."""
        self._write(has_unsynced=has_unsynced)

    def note_failed_sync(self) -> None:
        """Keep on the disk that a sync has failed of what others count on and was not synced before.

        The system's cache may lack them now, so that the machine's boot id proves nothing
        until the next process has opened every log. Blocks. Raises: StorageError.
        """
        self._write(boot_id="")

    def _renew(self, found: Found) -> None:
        """Say why the folder gets another id, and give it one."""
        log.warning(
            "the data folder may lack acknowledged records: complete replicas are preferred as leaders",
            **found._asdict(),
        )
        self.renew()

    def renew(self) -> None:
        """Give the folder another id; until then the file still marks it as incomplete.

        For a folder that has lost records, before others count on it. Raises: StorageError.
        """
        former = (self.directory_id, *self.former_directories)[:FORMER_MAX]
        self._write(former_directories=former)
        self._data.renew_directory_id(uuid4())

    def _read(self) -> Lives:
        try:
            content = self._data.file_system.read(self._data.path / FILE_NAME)
            return Lives() if content is None else msgspec.json.decode(content, type=Lives)
        except msgspec.DecodeError:
            return Lives()  # It proves nothing.
        except OSError as error:
            raise StorageError(f"{self._data.path / FILE_NAME} can't be read: {error}") from error

    def _write(self, **changes: object) -> None:
        files, path = self._data.file_system, self._data.path
        with self._writing:  # One thread renews the folder's id, while the loop notes unsynced data.
            known = msgspec.structs.replace(self._known, **changes)
            try:
                files.replace(path / FILE_NAME, msgspec.json.encode(known))
                files.sync_directory(path)
            except OSError as error:
                raise StorageError(f"{path / FILE_NAME} can't be written: {error}") from error
            self._known = known
