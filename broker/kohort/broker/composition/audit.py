"""The audit log of a broker, where the settings name a file for it."""

from typing import TYPE_CHECKING

from kohort.broker.config import BrokerConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch

if TYPE_CHECKING:
    from kohort.broker.audit.file import AuditFile
    from kohort.broker.audit.trail import Trail


class Audit:
    """Keeps who does what. The loop's thread only."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, is_shared: bool) -> None:
        """Open the file, if there is one; workers that share a port have a file each. Raises: OSError."""
        self._file: AuditFile | None = None
        self.trail: Trail | None = None
        if config.kohort_audit_log_file is None:
            return
        from kohort.broker.audit.trail import open_trail  # noqa: PLC0415  # Most brokers keep none.

        path = config.kohort_audit_log_file
        self._file, self.trail = open_trail(
            f"{path}-{config.node_id}" if is_shared else path,  # Workers rotate their files by themselves.
            size_bytes_max=config.kohort_audit_log_max_bytes,
            files_max=config.kohort_audit_log_files_max,
            clock=clock,
        )

    def audited(self, dispatch: Dispatch) -> Dispatch:
        """Return what notes changes before they are made."""
        if self.trail is None:
            return dispatch
        from kohort.broker.handlers.auditing import Auditing  # noqa: PLC0415  # As above.

        return Auditing(dispatch, self.trail)

    def login(self, principal: str, host: str, mechanism: str, failure: str) -> None:
        """Note an attempt to log in."""
        if self.trail is not None:
            self.trail.login(principal, host, mechanism, failure)

    def looked_at(self, topic: str, user: str, host: str) -> None:
        """Note who looks at records by HTTP."""
        if self.trail is not None:
            principal = f"Http:{user or 'ANONYMOUS'}"
            self.trail.used(principal, host, "http", "READ", f"TOPIC:{topic}", allowed=True)

    def count_lost(self, counters: TransportCounters) -> None:
        """Count the lines that the disk has not taken."""
        if self._file is not None:
            counters.audit_lines_lost = self._file.lost

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
