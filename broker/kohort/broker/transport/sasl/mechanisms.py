"""From the settings to the mechanisms that a listener takes."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Protocol

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.listener_settings import JAAS, MECHANISMS, named_listeners, of_listener
from kohort.broker.config.values import ConfigError
from kohort.broker.transport.sasl.conversation import Mechanism
from kohort.broker.transport.sasl.plain import Plain
from kohort.broker.transport.sasl.scram import Scram, made_up_salt
from kohort.protocol.jaas import users_of
from kohort.protocol.scram import MECHANISMS as SCRAM
from kohort.protocol.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)

if TYPE_CHECKING:
    from types import ModuleType

PLAIN_MODULE = "PlainLoginModule"
SCRAM_MODULE = "ScramLoginModule"

SASL = "SASL_"
OAUTHBEARER = "OAUTHBEARER"
SASL_MECHANISMS = ("PLAIN", *SCRAM, OAUTHBEARER)


class ListenAddress(Protocol):
    """Where a listener listens, as far as it matters here."""

    @property
    def protocol(self) -> str: ...  # noqa: D102  # Such as SASL_SSL.
    @property
    def name(self) -> str: ...  # noqa: D102  # Empty where it is called after its protocol.


Users = Callable[[str, str], ScramCredential | None]
"""Finds what is kept of a user's password, by user and mechanism."""

Iterations = Callable[[str], Mapping[int, int]]
"""Tells how many users of a mechanism have which number of iterations."""


class UserStore:
    """The users of SCRAM that the metadata have, and what the salts of others are made of: see `Scram`."""

    def __init__(self, find: Users, iterations: Iterations = lambda mechanism: {}) -> None:
        self.find = find
        self.iterations = iterations
        self.secret = token_bytes()
        """This process's own, until there is one that all brokers have."""
        self._after: list[Callable[[], None]] = []

    @property
    def is_used(self) -> bool:
        """Whether any salt is made of it: whether SCRAM is spoken."""
        return bool(self._after)

    def then(self, action: Callable[[], None]) -> None:
        """Do it now, and whenever there is another secret."""
        self._after.append(action)
        action()

    def keep(self, secret: bytes) -> None:
        """Take the secret that all brokers have, over restarts."""
        self.secret = secret
        for action in self._after:
            action()


def nobody(_user: str, _mechanism: str) -> None:
    """Find no user: for those who only look whether settings are as they must be."""


def check(listeners: Iterable[ListenAddress], config: BrokerConfig) -> None:
    """Return if every listener can say by what it takes its clients. Reads files. Raises: ConfigError."""
    check_names(listeners, config)

    def bearer() -> Mechanism:
        keys = keys_module()
        keys.check(config)
        return partial(Plain, {})  # Of these nobody begins a conversation.

    for each in listeners:
        if each.protocol.startswith(SASL):
            mechanisms_of(each, config, UserStore(nobody), bearer)


def keys_module() -> "ModuleType":
    """Return the module that reads the keys of tokens. Raises: ConfigError where its library is missing."""
    try:
        from kohort.broker.transport.sasl import keys  # noqa: PLC0415  # Few listeners take tokens.
    except ModuleNotFoundError as missing:
        if missing.name != "joserfc":
            raise
        raise ConfigError('OAUTHBEARER needs joserfc: pip install "kohort[security]"') from None
    return keys


def check_names(listeners: Iterable[ListenAddress], config: BrokerConfig) -> None:
    """Return if settings of single listeners are of those that there are. Raises: ConfigError."""
    names = {listener_name(each).lower() for each in listeners}
    if unknown := sorted(named_listeners(config.kohort_listener_settings) - names):
        raise ConfigError(
            f"listener.name.{unknown[0]}...: no listener is called so; there are {', '.join(sorted(names))}"
        )


def listener_name(listener: ListenAddress) -> str:
    """Return what settings call it."""
    return listener.name or listener.protocol


def mechanisms_of(
    listener: ListenAddress,
    config: BrokerConfig,
    users: UserStore,
    bearer: Callable[[], Mechanism],
) -> Mapping[str, Mechanism]:
    """Return what begins a conversation, by the name of the mechanism. Raises: ConfigError.

    `users` are those of SCRAM that the metadata have; those in the settings come behind them. `bearer` makes
    the mechanism that takes tokens, where it is wanted.
    """
    name = listener_name(listener)
    said = of_listener(config.kohort_listener_settings, name)
    enabled = tuple(each.strip() for each in said[MECHANISMS].split(",")) if MECHANISMS in said else None
    names = config.sasl_enabled_mechanisms if enabled is None else enabled
    if not names or any(each not in SASL_MECHANISMS for each in names):
        raise ConfigError(
            f"listener {name} speaks {listener.protocol}: give sasl.enabled.mechanisms, "
            f"of {', '.join(SASL_MECHANISMS)}"
        )
    return {
        each: bearer() if each == OAUTHBEARER else _mechanism(each, name, said, config, users)
        for each in names
    }


def _mechanism(
    name: str, listener: str, said: Mapping[str, str], config: BrokerConfig, users: UserStore
) -> Mechanism:
    setting = f"{name.lower()}.{JAAS}"
    text, place = said.get(setting), f"listener.name.{listener.lower()}.{setting}"
    if name in SCRAM:
        return _scram(SCRAM[name], _passwords(text, SCRAM_MODULE, place), users)
    if text is None and config.sasl_jaas_config is not None:
        text, place = config.sasl_jaas_config, JAAS
    passwords = _passwords(text, PLAIN_MODULE, place)
    if not passwords:
        raise ConfigError(
            f"{place}: who are the users of PLAIN? "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'
        )
    return partial(Plain, passwords)


def _passwords(text: str | None, module: str, place: str) -> Mapping[str, str]:
    try:
        return {} if text is None else users_of(text, module)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _scram(mechanism: ScramMechanism, passwords: Mapping[str, str], users: UserStore) -> Mechanism:
    """Return the mechanism for the users that the settings name, and those of the metadata before them."""
    fixed: dict[str, ScramCredential] = {}

    def fix() -> None:
        for user, password in passwords.items():
            salt = made_up_salt(users.secret, user)
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            fixed[user] = credential_of(mechanism, salted, salt, MIN_ITERATIONS)

    def lookup(user: str) -> ScramCredential | None:
        kept, own = users.find(user, mechanism.name), fixed.get(user)
        return kept or own

    def iterations() -> Mapping[int, int]:
        counts = users.iterations(mechanism.name)
        return {**counts, MIN_ITERATIONS: counts.get(MIN_ITERATIONS, 0) + len(fixed)} if fixed else counts

    users.then(fix)
    return lambda: Scram(mechanism, lookup, token_hex(), users.secret, iterations())
