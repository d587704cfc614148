"""Secrets that stand elsewhere than in the settings."""

import re
from pathlib import Path

import pytest

from kohort.protocol.config_providers import ALLOWED_VARIABLE, CLASSES, providers, resolve


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("db.password = sesame\\u00fc\nempty=\n")
    (tmp_path / "password").write_text("open sesame\n")
    (tmp_path / "windows").write_bytes(b"two\r\nlines\r\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("KOHORT_SECRET", "of the environment")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("${env:KOHORT_SECRET}", "of the environment"),
        ("${file:HERE/password}", "open sesame"),
        ("${file:HERE/windows}", "two\r\nlines"),
        ("${file:HERE/secrets.properties:db.password}", "sesame\u00fc"),
        ("${file:HERE/secrets.properties:empty}", ""),
        ("${directory:HERE:password}", "open sesame"),
        ('a="${file:HERE/password}" b="${env:KOHORT_SECRET}";', 'a="open sesame" b="of the environment";'),
        ("${vault:secret:key}", "${vault:secret:key}"),
        ("${KOHORT_SECRET} $env {env:X} plain", "${KOHORT_SECRET} $env {env:X} plain"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_reference_is_replaced_by_its_value(folder: Path, text: str, right: str) -> None:
    assert resolve(text.replace("HERE", str(folder))) == right


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:KOHORT_NONE}", "the environment variable KOHORT_NONE is not set"),
        ("${env:a:b}", "an environment variable has no path"),
        ("${file:HERE/none}", "No such file or directory"),
        ("${file:HERE/none:key}", "No such file or directory"),
        ("${file:HERE/secrets.properties:other}", "has no property other"),
        ("${file:HERE}", "Is a directory"),
        ("${file:HERE/binary}", "UTF-8"),
        ("${file:/dev/zero}", "larger than"),
        ("${directory:HERE:../password}", "give a folder and the name of a file in it"),
        ("${directory:HERE:..}", "give a folder and the name of a file in it"),
        ("${directory:password}", "give a folder and the name of a file in it"),
    ],
)
def test_a_reference_without_a_value_is_reported_in_one_line(folder: Path, text: str, reason: str) -> None:
    reference = text.replace("HERE", str(folder))
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        resolve(reference)
    assert reference in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_a_secret_is_not_resolved_again(folder: Path) -> None:
    (folder / "sly").write_text("${env:KOHORT_SECRET}")
    assert resolve(f"${{file:{folder}/sly}}") == "${env:KOHORT_SECRET}"


def test_kafkas_settings_can_rename_providers(folder: Path) -> None:
    named, rest = providers(
        {
            "config.providers": "secrets, vars",
            "config.providers.secrets.class": f"{CLASSES}DirectoryConfigProvider",
            "config.providers.vars.class": f"{CLASSES}EnvVarConfigProvider",
            "node.id": "1",
        }
    )
    assert rest == {"node.id": "1"}
    assert resolve(f"${{secrets:{folder}:password}} ${{vars:KOHORT_SECRET}}", named) == (
        "open sesame of the environment"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"},
        {"config.providers": "file"},
        {
            "config.providers": "file",
            "config.providers.file.class": f"{CLASSES}FileConfigProvider",
            "config.providers.file.param.allowed.paths": "/etc",
        },
    ],
)
def test_unknown_providers_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"config\.providers"):
        providers(settings)


@pytest.mark.parametrize(
    ("allowed", "right"),
    [
        ("none", "${env:KOHORT_SECRET} ${file:HERE/password} ${directory:HERE:password}"),
        ("", "${env:KOHORT_SECRET} ${file:HERE/password} ${directory:HERE:password}"),
        ("env", "of the environment ${file:HERE/password} ${directory:HERE:password}"),
        ("directory, env", "of the environment ${file:HERE/password} open sesame"),
        ("env,file,directory", "of the environment open sesame open sesame"),
    ],
)
def test_the_environment_selects_the_allowed_references(
    folder: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, right: str
) -> None:
    monkeypatch.setenv(ALLOWED_VARIABLE, allowed)
    text = "${env:KOHORT_SECRET} ${file:HERE/password} ${directory:HERE:password}"
    assert resolve(text.replace("HERE", str(folder))) == right.replace("HERE", str(folder))


def test_a_name_of_ones_own_allows_nothing_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"config.providers": "mine", "config.providers.mine.class": f"{CLASSES}FileConfigProvider"}
    known, _ = providers(settings)
    monkeypatch.setenv(ALLOWED_VARIABLE, "none")
    text = f"${{mine:{folder}/password}}"
    assert resolve(text, known) == text
    with pytest.raises(ValueError, match=f"{ALLOWED_VARIABLE} does not allow it"):
        providers(settings)


def test_a_misspelled_provider_in_the_environment_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_VARIABLE, "env,vault")
    with pytest.raises(ValueError, match="has vault: give none, or some of env, file, directory"):
        resolve("${env:HOME}")
