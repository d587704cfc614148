"""Clients with many wrong passwords have to wait, longer and longer, before the next one is checked.

Failures are counted for a user from a network (an IPv4 address, the /64 of an IPv6 one), so that nobody can
lock a user out from elsewhere; and for a network with any user, with a higher limit, so that many
users cannot be tried from there. If a user waits already, only one failure in `HALVED_MS` counts for its
network:
a client with an old password does not lock out the others there. A user that has logged in from a network
does not wait for others in it. Logins during the wait are not checked, and do not prolong it.
Failures are forgotten with time.
"""

from collections import OrderedDict
from hmac import digest
from secrets import token_bytes
from typing import NamedTuple

from kohort.protocol.addresses import network_of

FREE = 5
"""So many failures of a user from a network are free: typing mistakes, an old password."""
FREE_OF_NETWORK = 50
FIRST_MS = 1_000
HALVED_MS = 600_000
"""After this time without a failure half of them are forgotten."""
KEPT_MAX = 10_000
"""Of each kind; the one changed longest ago is forgotten. About 200 bytes each."""

Key = bytes


class _Failures(NamedTuple):
    number: int
    last_ms: int
    told_ms: int
    """When it counted for the network, too."""


class LockOut:
    """The counted failures. The loop's thread only; names and passwords are not kept."""

    def __init__(self) -> None:
        self._secret = token_bytes()
        self._users: OrderedDict[Key, _Failures] = OrderedDict()
        self._networks: OrderedDict[Key, _Failures] = OrderedDict()
        self._let_in: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._users) + len(self._networks) + len(self._let_in)

    def wait_ms(self, host: str, user: str, now_ms: int, *, longest_ms: int) -> int:
        """Return how long `user` from `host` has to wait; 0: the login is checked."""
        if not longest_ms:
            return 0
        key = self._key(host, user)
        wait_ms = _wait_ms(self._users.get(key), FREE, now_ms, longest_ms)
        if wait_ms or key in self._let_in:
            return wait_ms
        return _wait_ms(self._networks.get(self._key(host)), FREE_OF_NETWORK, now_ms, longest_ms)

    def failed(self, host: str, user: str, now_ms: int) -> None:
        """Count a login with a wrong password."""
        key = self._key(host, user)
        before = self._users.get(key)
        if before is None or _left(before, now_ms) < FREE or now_ms - before.told_ms >= HALVED_MS:
            _count(self._users, key, now_ms, now_ms)
            _count(self._networks, self._key(host), now_ms, now_ms)
        else:
            _count(self._users, key, now_ms, before.told_ms)

    def succeeded(self, host: str, user: str) -> None:
        """Note a successful login: its own failures are forgotten, those of its network are not."""
        key = self._key(host, user)
        self._users.pop(key, None)
        self._let_in[key] = None
        self._let_in.move_to_end(key)
        if len(self._let_in) > KEPT_MAX:
            self._let_in.popitem(last=False)

    def _key(self, host: str, user: str | None = None) -> Key:
        """Return the key of both: of one size, for any name."""
        text = network_of(host) if user is None else f"{network_of(host)}\0{user}"
        return digest(self._secret, text.encode("utf-8", "surrogatepass"), "sha256")[:16]


def _count(table: OrderedDict[Key, _Failures], key: Key, now_ms: int, told_ms: int) -> None:
    before = table.get(key)
    table[key] = _Failures((0 if before is None else _left(before, now_ms)) + 1, now_ms, told_ms)
    table.move_to_end(key)
    if len(table) > KEPT_MAX:
        table.popitem(last=False)


def _left(failures: _Failures, now_ms: int) -> int:
    """Return how many of them are not forgotten."""
    return failures.number >> min(63, max(0, now_ms - failures.last_ms) // HALVED_MS)


def _wait_ms(failures: _Failures | None, free: int, now_ms: int, longest_ms: int) -> int:
    if failures is None or (over := _left(failures, now_ms) - free) < 0:
        return 0
    locked_ms = min(longest_ms, FIRST_MS << min(over, 30))
    return max(0, failures.last_ms + locked_ms - now_ms)
