"""The file and --set: three ways to write a name, and one line for each mistake."""

from pathlib import Path

import pytest

from kohort.broker.config import BrokerConfig, ConfigError, load_config


def load(tmp_path: Path, text: str, *settings: tuple[str, str]) -> BrokerConfig:
    file = tmp_path / "broker.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, settings)


@pytest.mark.parametrize(
    "text",
    [
        '"log.retention.ms" = 5',
        "log.retention.ms = 5",
        "[log.retention]\nms = 5",
        '[log]\n"retention.ms" = "5"',
    ],
)
def test_a_name_can_be_quoted_dotted_or_a_table(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).log_retention_ms == 5


def test_values_can_have_their_toml_type_or_be_text(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        'auto.create.topics.enable = false\nlog.cleanup.policy = ["compact", "delete"]\n'
        'log.cleaner.min.cleanable.ratio = 0.25\nbroker.rack = "a"\nnum.partitions = "4"',
    )
    assert config.auto_create_topics_enable is False
    assert config.log_cleanup_policy == ("compact", "delete")
    assert config.log_cleaner_min_cleanable_ratio == 0.25
    assert (config.broker_rack, config.num_partitions) == ("a", 4)


def test_the_command_line_overrides_the_file_and_its_last_value_counts(tmp_path: Path) -> None:
    config = load(tmp_path, "num.partitions = 4", ("num.partitions", "5"), ("num.partitions", "6"))
    assert config.num_partitions == 6


@pytest.mark.parametrize(
    "text, right",
    [
        ("num.partition = 4", "did you mean num.partitions?"),
        ("num.partitions = 0", "at least 1"),
        ("num.partitions = 1.5", "a whole number"),
        ("num.partitions = 2020-01-01", "must be text, a number or a list"),
        ("num.io.threads = 8", "no use for: remove it"),
        ("num.partitions = = 4", "broker.toml: "),
        ("max.connections = 4\nmax.connections.per.ip = 4", "in quotes"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_the_file(tmp_path: Path, text: str, right: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "broker.toml"))
    assert right in message
    assert "\n" not in message


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "nowhere.toml", ())


def test_a_file_that_is_not_text_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "broker.toml", ())


def test_a_mistake_on_the_command_line_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"did you mean log\.retention\.ms"):
        load_config(None, [("log.retenton.ms", "1")])
    with pytest.raises(ConfigError, match=r"num\.partitions: it must be a whole number"):
        load_config(None, [("num.partitions", "many")])
