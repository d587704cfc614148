"""The metadata file in the data folder: whole before a change or whole after it, never between."""

from pathlib import Path

from kohort.broker.metadata.format import Encoder, MetadataFormatError, Stored, decode
from kohort.storage import FileSystem, StorageError

FILE_NAME = "metadata.jsonl"


class MetadataFile:
    """Loads the file at the start and gives it a new content at each change."""

    def __init__(self, filesystem: FileSystem, folder: Path) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self.path = folder / FILE_NAME
        self._encoder = Encoder()

    def load(self) -> Stored:
        """Return what the file holds, or the empty metadata of a new data folder.

        Raises: StorageError if the file is damaged or can't be read.
        """
        try:
            data = self._filesystem.read(self.path)
        except OSError as error:
            raise StorageError(f"metadata file {self.path} can't be read: {error.strerror}") from error
        if data is None:
            return Stored()
        try:
            return decode(data)
        except MetadataFormatError as error:
            raise StorageError(
                f"metadata file {self.path} is damaged: {error}; put a good copy in its place"
            ) from error

    def save(self, stored: Stored) -> None:
        """Put `stored` into the file, and return once it is on the disk. Blocks.

        Raises: StorageError; then the file is as it was, or as it should be.
        """
        content = self._encoder.encode(stored)
        try:
            self._filesystem.replace(self.path, content)
            self._filesystem.sync_directory(self._folder)
        except OSError as error:
            raise StorageError(f"metadata file {self.path} can't be written: {error.strerror}") from error
