"""What can go wrong with etcd, as a caller has to tell it apart."""


class EtcdError(Exception):
    """Something that was asked of etcd was not done, or nobody knows."""


class EtcdUnavailable(EtcdError):
    """No endpoint has answered in time.

    `maybe_done` says whether the request may have reached one: then a change may have been made.
    """

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class EtcdSilent(EtcdUnavailable):
    """A stream has told nothing for so long that its connection may be gone."""


class EtcdRejected(EtcdError):
    """Etcd has answered that it will not do it; `code` is gRPC's number of the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class EtcdUnauthorized(EtcdRejected):
    """The user, the password or what the user may do is not enough."""


class EtcdLeaseLost(EtcdRejected):
    """The lease has expired, or was revoked."""


class EtcdCompacted(EtcdRejected):
    """What is asked for was compacted away; `compact_revision` is the oldest that is left, 0 if not told."""

    def __init__(self, code: int, message: str, compact_revision: int = 0) -> None:
        super().__init__(code, message)
        self.compact_revision = compact_revision
