"""No setting pretends: each is read somewhere in the code, or is listed as one without effect."""

import re
from pathlib import Path

import pytest

from kohort.broker.config import BROKER_DEFINITIONS, TOPIC_DEFINITIONS, ConfigDefinition
from kohort.broker.config.group_bounds import BOUNDS
from kohort.broker.config.group_settings import GroupSettings
from kohort.broker.config.pending import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT

ROOT = Path(__file__).parents[2]
SOURCES = [
    path.read_text(encoding="utf-8")
    for room in ("broker", "storage")
    for path in (ROOT / room / "kohort").rglob("*.py")
    if path.parent.name != "config" and not path.name.startswith("test_")
]
WORDS = {word for text in SOURCES for word in re.findall(r"\b\w+\b", text)}
READ_OF_TOPICS = {word for text in SOURCES for word in re.findall(r"\bconfig\.(\w+)\b", text)}
SYNONYMS = {
    name for each in (*TOPIC_DEFINITIONS, *GroupSettings.DEFINITIONS.values()) for name in each.synonyms
}
"""What the settings of topics and groups stand for where they are not set."""
BY_NAME = {name for pair in BOUNDS.values() for name in pair}
"""What is read of groups' bounds, whichever setting they are of."""


@pytest.mark.parametrize(
    "definition",
    [each for each in BROKER_DEFINITIONS if each.name not in SYNONYMS | BY_NAME],
    ids=lambda each: each.name,
)
def test_a_setting_of_the_broker_is_read_unless_it_is_listed(definition: ConfigDefinition) -> None:
    assert (definition.attribute in WORDS) is (definition.name not in BROKER_WITHOUT_EFFECT)


@pytest.mark.parametrize("definition", TOPIC_DEFINITIONS, ids=lambda each: each.name)
def test_a_setting_of_topics_is_read_unless_it_is_listed(definition: ConfigDefinition) -> None:
    assert (definition.attribute in READ_OF_TOPICS) is (definition.name not in TOPIC_WITHOUT_EFFECT)
