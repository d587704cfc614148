"""The keys that verify tokens, read regularly from a file or by HTTP.

Source: Kafka's RefreshingHttpsJwks.
"""

from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec
import structlog
import trio
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.sasl.bearer import Keys, rules_of

KEYS_BYTES_MAX = 1 << 20
READ_SECONDS_MAX = 10.0
READ_MS_MAX = 30_000
WANTED_AGAIN_SECONDS = 5.0  # Tokens with unknown keys trigger a read at most this often.
ASYMMETRIC = ("RSA", "EC", "OKP")

log = structlog.get_logger("kohort.sasl")


class KeySource:
    """Reads keys, and keeps the last valid ones."""

    def __init__(self, config: BrokerConfig, workers: Workers) -> None:
        """Read a file at once; keys by HTTP are read later. Raises: ConfigError."""
        self._config = config
        self._workers = workers
        self._url = checked_url(config)
        self._wanted = trio.Event()
        self._last_error = ""
        self.keys = Keys()
        self.keys.want_more = self._want
        if self._is_file:
            self.keys.found = read_keys(self._url)

    @property
    def _is_file(self) -> bool:
        return urlsplit(self._url).scheme == "file"

    def _want(self) -> None:
        self._wanted.set()

    async def reload_regularly(self, part: Watched = UNWATCHED) -> None:
        """Read the keys now, then at the configured interval, and when a token has an unknown key."""
        while True:
            with part.working(READ_MS_MAX):
                is_read = await self.reload()
            seconds = self._config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
            if self._is_file:
                seconds = min(seconds, self._config.kohort_ssl_reload_interval_ms / 1000)
            await self._workers.sleep(min(WANTED_AGAIN_SECONDS, seconds))
            if is_read:
                with trio.move_on_after(max(0.0, seconds - WANTED_AGAIN_SECONDS)):
                    await self._wanted.wait()
            self._wanted = trio.Event()

    async def reload(self) -> bool:
        """Read the keys. Return whether that succeeded; otherwise the old keys stay."""
        try:
            self.keys.found = await self._workers.in_thread(read_keys, self._url)
        except ConfigError as error:
            if str(error) != self._last_error:
                log.error("the keys of tokens cannot be read, the old ones stay", error=str(error))
            self._last_error = str(error)
            return False
        if self._last_error:
            log.info("the keys of tokens were read again")
        self._last_error = ""
        return True


def check(config: BrokerConfig) -> None:
    """Check the settings of OAUTHBEARER. Reads files. Raises: ConfigError."""
    rules_of(config)
    url = checked_url(config)
    if urlsplit(url).scheme == "file":
        read_keys(url)


def checked_url(config: BrokerConfig) -> str:
    """Return the URL of the keys. Raises: ConfigError."""
    url = config.sasl_oauthbearer_jwks_endpoint_url or ""
    if urlsplit(url).scheme not in ("file", "http", "https"):
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url={url}: give the https:// or file:// URL of a "
            "JSON Web Key Set"
        )
    return url


def read_keys(url: str) -> KeySet:
    """Return the asymmetric keys. Blocks. Raises: ConfigError."""
    place = f"sasl.oauthbearer.jwks.endpoint.url={url}"
    try:
        request = Request(url, headers={"Accept": "application/json"})  # Of these schemes alone.
        with urlopen(request, timeout=READ_SECONDS_MAX) as answer:
            data: bytes = answer.read(KEYS_BYTES_MAX + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise ConfigError(f"{place}: {error}") from None
    if len(data) > KEYS_BYTES_MAX:
        raise ConfigError(f"{place}: more than {KEYS_BYTES_MAX} bytes")
    try:
        listed = msgspec.json.decode(data)["keys"]
        good = [each for each in listed if each.get("kty") in ASYMMETRIC and each.get("use", "sig") == "sig"]
        if not good:
            raise ConfigError(f"{place}: it has no public key for signatures (RSA, EC or OKP)")
        return KeySet.import_key_set({"keys": good})
    except (JoseError, msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{place}: this is no JSON Web Key Set ({type(error).__name__})") from None
