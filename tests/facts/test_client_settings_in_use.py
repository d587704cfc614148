"""No setting of the client pretends: each is read somewhere in the code."""

import re
from pathlib import Path

import pytest

from kohort.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from kohort.client.share.config import ShareConsumerConfig

CLIENT = Path(__file__).parents[2] / "client" / "kohort" / "client"
CONFIG = CLIENT / "config.py"
OF_SHARES = CLIENT / "share" / "config.py"
SOURCES = [
    path.read_text(encoding="utf-8")
    for path in CLIENT.rglob("*.py")
    if path not in {CONFIG, OF_SHARES} and not path.name.startswith("test_")
]
READ = {word for text in SOURCES for word in re.findall(r"config\.(\w+)\b", text)}
OF_ITSELF = {
    word
    for path in (CONFIG, OF_SHARES)
    for word in re.findall(r"\bself\.(\w+)\b", path.read_text(encoding="utf-8"))
}  # In a property.


@pytest.mark.parametrize("kind", [AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig])
def test_a_setting_of_the_client_is_read(kind: type[ClientConfig]) -> None:
    assert set(kind.__struct_fields__) <= READ | OF_ITSELF
