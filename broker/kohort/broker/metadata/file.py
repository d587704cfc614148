"""The metadata file in the data folder: whole before a change or whole after it, never between.

Beside it is a file with the next producer id alone. Where somebody puts an older copy of the metadata file in
place, ids that were given out since are in the logs: a new producer with one of them would be taken for the
former one, and its first records for duplicates.
"""

import re
from pathlib import Path

import msgspec

from kohort.broker.metadata.format import Encoder, MetadataFormatError, Stored, decode
from kohort.broker.metadata.store import ChangeUnknown
from kohort.storage import FileSystem, StorageError

FILE_NAME = "metadata.jsonl"
PRODUCER_IDS_FILE = "producer-ids"
_PARTITION_FOLDER = re.compile(r".+-[0-9]+")
_PRODUCER_IDS = re.compile(rb"[0-9]{1,18}\n")


class MetadataFile:
    """Loads the file at the start and gives it a new content at each change."""

    def __init__(self, filesystem: FileSystem, folder: Path) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self.path = folder / FILE_NAME
        self._encoder = Encoder()
        self._producer_ids_path = folder / PRODUCER_IDS_FILE
        self._next_producer_id = 0  # The content of the file besides it.

    def is_missing(self) -> bool:
        """Whether there is no file yet. Raises: StorageError if that is unknown."""
        try:
            return self._filesystem.read(self.path) is None
        except OSError as error:
            raise StorageError(f"metadata file {self.path} can't be read: {error.strerror}") from error

    def load(self) -> Stored:
        """Return the content of the file, or the empty metadata of a new data folder.

        Raises: StorageError if the file is damaged or can't be read, or if it alone is missing.
        """
        try:
            data = self._filesystem.read(self.path)
            self._read_next_producer_id()
            if data is None:
                self._check_new()
                return Stored(next_producer_id=self._next_producer_id)
        except OSError as error:
            raise StorageError(f"metadata file {self.path} can't be read: {error.strerror}") from error
        try:
            stored = decode(data)
            next_producer_id = max(stored.next_producer_id, self._next_producer_id)
            return msgspec.structs.replace(stored, next_producer_id=next_producer_id)
        except MetadataFormatError as error:
            raise StorageError(
                f"metadata file {self.path} is damaged: {error}; put a good copy in its place"
            ) from error

    def _read_next_producer_id(self) -> None:
        """Read the file beside the metadata file. What no kohort wrote counts for nothing."""
        content = self._filesystem.read(self._producer_ids_path)
        if content is not None and _PRODUCER_IDS.fullmatch(content):
            self._next_producer_id = int(content)

    def _check_new(self) -> None:
        """Return if the folder has no partition: without the file its owner is unknown.

        Raises: StorageError.
        """
        names = self._filesystem.list_directory(self._folder) or ()
        lost = [name for name in names if _PARTITION_FOLDER.fullmatch(name) and self._is_folder(name)]
        if lost:
            raise StorageError(
                f"metadata file {self.path} is missing, but there are partitions such as {min(lost)}: "
                "put the file back, or begin in an empty folder"
            )

    def _is_folder(self, name: str) -> bool:
        try:
            return self._filesystem.list_directory(self._folder / name) is not None
        except NotADirectoryError:
            return False

    def save(self, stored: Stored) -> None:
        """Put `stored` into the file, and return once it is on the disk. Blocks.

        Raises: StorageError, and the file is as it was; ChangeUnknown, and it is that, or as it should be.
        """
        content = self._encoder.encode(stored)
        try:
            if stored.next_producer_id > self._next_producer_id:
                self._filesystem.replace(self._producer_ids_path, b"%d\n" % stored.next_producer_id)
                self._next_producer_id = stored.next_producer_id
            self._filesystem.replace(self.path, content)
        except OSError as error:
            raise StorageError(f"metadata file {self.path} can't be written: {error.strerror}") from error
        try:
            self._filesystem.sync_directory(self._folder)
        except OSError as error:
            raise ChangeUnknown(
                f"whether metadata file {self.path} is written nobody knows: {error.strerror}"
            ) from error
