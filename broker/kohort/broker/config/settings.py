"""Declares settings: one class attribute gives name, type, default, limits and documentation."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self, TypeVar, cast

from kohort.broker.config.values import (
    ANYTHING,
    HIDDEN,
    ConfigDefinition,
    ConfigError,
    ConfigType,
    ConfigValue,
    Validator,
)

T = TypeVar("T")


class _Declaration(NamedTuple):
    type: ConfigType
    default: ConfigValue
    documentation: str
    validator: Validator
    synonyms: tuple[str, ...]
    read_only: bool | None
    internal: bool
    kafka_default: str | None

    def named(self, name: str, read_only: bool) -> ConfigDefinition:
        """Return the definition of the setting `name`. `read_only` is the default of that flag."""
        return ConfigDefinition(
            name,
            self.type,
            self.default,
            self.documentation,
            self.validator,
            self.synonyms,
            read_only=read_only if self.read_only is None else self.read_only,
            internal=self.internal,
            kafka_default=self.kafka_default,
            sensitive=self.type is ConfigType.PASSWORD,
        )


def setting(
    kind: ConfigType,
    default: T,
    documentation: str,
    validator: Validator = ANYTHING,
    *,
    synonyms: tuple[str, ...] = (),
    read_only: bool | None = None,
    internal: bool = False,
    kafka_default: str | None = None,
) -> T:
    """Return the declaration of a setting. Its class turns it into its default and a definition."""
    declaration = _Declaration(
        kind,
        cast(ConfigValue, default),
        documentation,
        validator,
        synonyms,
        read_only,
        internal,
        kafka_default,
    )
    return cast(T, declaration)


class Settings:
    """Typed, immutable values: one attribute for each setting.

    The constructor takes keyword arguments with underscores, `parsed` takes texts by dotted name.
    Raises: ConfigError for an unknown name or a wrong value.
    """

    DEFINITIONS: ClassVar[Mapping[str, ConfigDefinition]] = {}
    KIND: ClassVar[str] = ""
    READ_ONLY: ClassVar[bool] = False
    """Whether only a restart changes a setting, unless its declaration says otherwise."""

    def __init_subclass__(cls) -> None:
        families = [base for base in cls.__bases__ if issubclass(base, Settings)]
        definitions = {name: each for family in families for name, each in family.DEFINITIONS.items()}
        for attribute, value in list(vars(cls).items()):
            if isinstance(value, _Declaration):
                name = attribute.replace("_", ".")
                definitions[name] = value.named(name, cls.READ_ONLY)
                setattr(cls, attribute, value.default)
        cls.DEFINITIONS = definitions

    def __init__(self, **values: ConfigValue) -> None:
        for attribute, value in values.items():
            definition = self.definition(attribute.replace("_", "."))
            self.__dict__[attribute] = definition.checked(value)

    @classmethod
    def parsed(cls, texts: Mapping[str, str | None]) -> Self:
        """Return the settings from texts by dotted name."""
        settings = cls()
        settings.__dict__.update(cls.parse_values(texts))
        return settings

    @classmethod
    def parse_values(cls, texts: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return the parsed values by attribute."""
        definitions = ((cls.definition(name), text) for name, text in texts.items())
        return {definition.attribute: definition.parse(text) for definition, text in definitions}

    @classmethod
    def definition(cls, name: str) -> ConfigDefinition:
        """Return the definition of a dotted name. Raises: ConfigError with the most similar name."""
        definition = cls.DEFINITIONS.get(name)
        if definition is None:
            raise ConfigError(f"Unknown {cls.KIND} config name: {name}{cls.hint(name)}")
        return definition

    @classmethod
    def hint(cls, name: str) -> str:
        """Return a hint with the most similar name, or an empty text."""
        from difflib import get_close_matches  # noqa: PLC0415  # Needed only for mistakes.

        nearest = get_close_matches(name.lower().replace("_", "."), cls.DEFINITIONS, n=1, cutoff=0.7)
        return f" (did you mean {nearest[0]}?)" if nearest else ""

    def value(self, name: str) -> ConfigValue:
        """Return the value of a dotted name."""
        return cast(ConfigValue, getattr(self, self.definition(name).attribute))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{attribute} cannot be changed: create a new object")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self is other or self.__dict__ == other.__dict__:  # The usual case.
            return True
        return all(self.value(name) == other.value(name) for name in self.DEFINITIONS)

    __hash__ = None  # type: ignore[assignment]  # It is comparable, but no key of a dictionary.

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={HIDDEN if self.definition(name.replace('_', '.')).sensitive else repr(value)}"
            for name, value in self.__dict__.items()
            if name[0] != "_"
        )
        return f"{type(self).__name__}({given})"


class BrokerSettings(Settings):
    """A family of the broker's settings."""

    KIND = "broker"
    READ_ONLY = True
