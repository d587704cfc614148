"""The one error that this room raises of itself."""


class StorageError(Exception):
    """The disk failed, or holds what cannot be used: one log (or the data folder) is out of service.

    The log that raised it refuses appends until it is closed and opened again; other logs keep serving.
    """
