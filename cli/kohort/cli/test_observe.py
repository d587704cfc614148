"""What `kohort observe` refuses before it asks any broker."""

import pytest
from click.testing import CliRunner

from kohort.cli import observe as module


def refused(*arguments: str) -> str:
    ended = CliRunner().invoke(module.observe, arguments)
    assert ended.exit_code == 2, ended.output
    return ended.output


def test_agents_need_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert "pip install 'kohort[mcp]'" in refused("--mcp", "--cluster", "one=a:1")


@pytest.mark.parametrize("name", ["api", "metrics", "health", "page", "mcp", "a/b", ".a"])
def test_a_cluster_has_no_name_that_is_a_path(name: str) -> None:
    assert "a name has letters" in refused("--cluster", f"{name}=127.0.0.1:1")
