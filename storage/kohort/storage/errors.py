"""The one error that this room raises of itself."""


class StorageError(Exception):
    """The disk failed, or holds what cannot be used: one log (or the data folder) is out of service.

    The log that raised it takes no more appends until it was closed and opened again; others serve on.
    """
