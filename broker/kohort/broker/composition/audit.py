"""The audit log of a broker, where the settings name a file for it."""

from typing import TYPE_CHECKING

from kohort.broker.config import BrokerConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch

if TYPE_CHECKING:
    from kohort.broker.audit.audit_log import AuditLog
    from kohort.broker.audit.file import AuditFile


class Audit:
    """Logs the operations of users. The loop's thread only."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, is_shared: bool) -> None:
        """Open the file, if there is one; workers that share a port have a file each. Raises: OSError."""
        self._file: AuditFile | None = None
        self.audit_log: AuditLog | None = None
        if config.kohort_audit_log_file is None:
            return
        from kohort.broker.audit.audit_log import open_audit_log  # noqa: PLC0415  # Most brokers keep none.

        path = config.kohort_audit_log_file
        self._file, self.audit_log = open_audit_log(
            f"{path}-{config.node_id}" if is_shared else path,  # Workers rotate their files by themselves.
            size_bytes_max=config.kohort_audit_log_max_bytes,
            files_max=config.kohort_audit_log_files_max,
            clock=clock,
        )

    def audited(self, dispatch: Dispatch) -> Dispatch:
        """Return what notes changes before they are made."""
        if self.audit_log is None:
            return dispatch
        from kohort.broker.handlers.auditing import Auditing  # noqa: PLC0415  # As above.

        return Auditing(dispatch, self.audit_log)

    def login(self, principal: str, host: str, mechanism: str, failure: str) -> None:
        """Note an attempt to log in."""
        if self.audit_log is not None:
            self.audit_log.login(principal, host, mechanism, failure)

    def looked_at(self, topic: str, user: str, host: str) -> None:
        """Note a user that reads records over HTTP."""
        if self.audit_log is not None:
            principal = f"Http:{user or 'ANONYMOUS'}"
            self.audit_log.used(principal, host, "http", "READ", f"TOPIC:{topic}", allowed=True)

    def count_lost(self, counters: TransportCounters) -> None:
        """Count the lines that the disk has not taken."""
        if self._file is not None:
            counters.audit_lines_lost = self._file.lost

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
