"""The errors of etcd that a caller has to distinguish."""


class EtcdError(Exception):
    """A request to etcd was not executed, or its result is unknown."""


class EtcdUnavailable(EtcdError):
    """No endpoint has answered in time.

    `maybe_done` tells whether the request may have reached one: then a change may have been made.
    """

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class EtcdSilent(EtcdUnavailable):
    """A stream was silent for so long that its connection may be gone."""


class EtcdRejected(EtcdError):
    """Etcd has answered that it will not do it; `code` is gRPC's number of the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class EtcdUnauthorized(EtcdRejected):
    """The user, the password or the user's permissions are insufficient."""


class EtcdLeaseLost(EtcdRejected):
    """The lease has expired, or was revoked."""


class EtcdCompacted(EtcdRejected):
    """The requested revision was compacted; `compact_revision` is the oldest that is left, 0 if unknown."""

    def __init__(self, code: int, message: str, compact_revision: int = 0) -> None:
        super().__init__(code, message)
        self.compact_revision = compact_revision
