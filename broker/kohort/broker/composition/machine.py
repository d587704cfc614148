"""The machine of a broker besides its clock and its disk: sockets, threads and a poller.

A simulation has its own machine, with virtual ones.
"""

import shutil
import socket
from pathlib import Path

import trio

from kohort.broker.runtime.disk_space import Usage
from kohort.broker.runtime.workers import TrioWorkers, Workers
from kohort.broker.transport.addresses import Address, bind
from kohort.broker.transport.poller import Poller, make_poller

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Machine:
    """The machine on which this process runs."""

    def workers(self, nursery: trio.Nursery) -> Workers:
        """Return what runs tasks and threads."""
        return TrioWorkers(nursery)

    def poller(self) -> Poller:
        """Return a new poller for the reactor. Raises: OSError."""
        return make_poller()

    def socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two sockets that are connected with each other. Raises: OSError."""
        return socket.socketpair()

    def bind(self, address: Address, *, is_shared: bool = False) -> socket.socket:
        """Return a bound non-blocking socket. Raises: OSError with the address.

        With `is_shared`, other processes of the same user may bind the address as well.
        """
        return bind(address, is_shared=is_shared)

    def boot_id(self) -> str:
        """Return the boot id of the machine; empty if the system does not tell."""
        try:
            return BOOT_ID.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def disk_usage(self, path: Path) -> Usage:
        """Return the bytes of the disk under a folder. Raises: OSError."""
        return shutil.disk_usage(path)
