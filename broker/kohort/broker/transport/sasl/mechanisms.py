"""Creates the SASL mechanisms of a listener from the settings."""

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
    """The parts of a listener's address that matter here."""

    @property
    def protocol(self) -> str: ...  # noqa: D102  # Such as SASL_SSL.
    @property
    def name(self) -> str: ...  # noqa: D102  # Empty where it is called after its protocol.


Users = Callable[[str, str], ScramCredential | None]
"""Returns the credential of a user for a mechanism, or None."""

Iterations = Callable[[str], Mapping[int, int]]
"""Returns the number of users of a mechanism by their iterations."""


class UserStore:
    """The SCRAM users in the metadata, and the secret for salts of unknown users: see `Scram`."""

    def __init__(self, find: Users, iterations: Iterations = lambda mechanism: {}) -> None:
        self.find = find
        self.iterations = iterations
        self.secret = token_bytes()
        """The secret: at first random, later the one that all brokers share."""
        self._after: list[Callable[[], None]] = []

    @property
    def is_used(self) -> bool:
        """Whether SCRAM is enabled."""
        return bool(self._after)

    def then(self, action: Callable[[], None]) -> None:
        """Call `action` now, and whenever the secret changes."""
        self._after.append(action)
        action()

    def keep(self, secret: bytes) -> None:
        """Set the secret that all brokers share, also after restarts."""
        self.secret = secret
        for action in self._after:
            action()


def nobody(_user: str, _mechanism: str) -> None:
    """Return None: a `Users` for checks of the settings."""


def check(listeners: Iterable[ListenAddress], config: BrokerConfig) -> None:
    """Check the SASL settings of every listener. Reads files. Raises: ConfigError."""
    check_names(listeners, config)

    def bearer() -> Mechanism:
        keys = keys_module()
        keys.check(config)
        return partial(Plain, {})  # It is never used.

    for each in listeners:
        if each.protocol.startswith(SASL):
            mechanisms_of(each, config, UserStore(nobody), bearer)


def keys_module() -> "ModuleType":
    """Return the module for keys of tokens. Raises: ConfigError if its library is missing."""
    try:
        from kohort.broker.transport.sasl import keys  # noqa: PLC0415  # Few listeners take tokens.
    except ModuleNotFoundError as missing:
        if missing.name != "joserfc":
            raise
        raise ConfigError('OAUTHBEARER needs joserfc: pip install "kohort[security]"') from None
    return keys


def check_names(listeners: Iterable[ListenAddress], config: BrokerConfig) -> None:
    """Check that settings of single listeners name existing listeners. Raises: ConfigError."""
    names = {listener_name(each).lower() for each in listeners}
    if unknown := sorted(named_listeners(config.kohort_listener_settings) - names):
        raise ConfigError(
            f"listener.name.{unknown[0]}...: there is no such listener; "
            f"give one of {', '.join(sorted(names))}"
        )


def listener_name(listener: ListenAddress) -> str:
    """Return the listener's name in settings."""
    return listener.name or listener.protocol


def mechanisms_of(
    listener: ListenAddress,
    config: BrokerConfig,
    users: UserStore,
    bearer: Callable[[], Mechanism],
) -> Mapping[str, Mechanism]:
    """Return the mechanisms of a listener by name. Raises: ConfigError.

    `users` are the SCRAM users in the metadata, which win over those in the settings. `bearer` creates the
    OAUTHBEARER mechanism.
    """
    name = listener_name(listener)
    said = of_listener(config.kohort_listener_settings, name)
    enabled = tuple(each.strip() for each in said[MECHANISMS].split(",")) if MECHANISMS in said else None
    names = config.sasl_enabled_mechanisms if enabled is None else enabled
    if not names or any(each not in SASL_MECHANISMS for each in names):
        raise ConfigError(
            f"the listener {name} with {listener.protocol} needs sasl.enabled.mechanisms: give some of "
            f"{', '.join(SASL_MECHANISMS)}"
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
            f"{place}: PLAIN needs users: give "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'
        )
    return partial(Plain, passwords)


def _passwords(text: str | None, module: str, place: str) -> Mapping[str, str]:
    try:
        return {} if text is None else users_of(text, module)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _scram(mechanism: ScramMechanism, passwords: Mapping[str, str], users: UserStore) -> Mechanism:
    """Return the mechanism for the users in the metadata and in the settings."""
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
