"""What is read of a configuration that Java's login modules have."""

import pytest

from kohort.protocol.jaas import LoginModule, parse_jaas, users_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    "text, options",
    [
        (f'{PLAIN} required user_alice="secret";', {"user_alice": "secret"}),
        (f"  {PLAIN}  REQUIRED\n a=\"1\"  b=2\tc = '3' ;  ", {"a": "1", "b": "2", "c": "3"}),
        (
            f'{PLAIN} required a="with \\"quotes\\" and \\\\ and ; and =";',
            {"a": 'with "quotes" and \\ and ; and ='},
        ),
        (f"{PLAIN} required a='with \"quotes\"';", {"a": 'with "quotes"'}),
        (f'{PLAIN} required empty="" umlaut="Käse";', {"empty": "", "umlaut": "Käse"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_modules_have_options(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == LoginModule("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        f'{PLAIN} required user_alice="secret"',
        f'{PLAIN} user_alice="secret";',
        f'{PLAIN} required user_alice "secret";',
        f'{PLAIN} required user_alice="secret;',
        f'{PLAIN} required a="secret"; {PLAIN} required b="secret";',
    ],
)
def test_an_invalid_jaas_text_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


def test_users_are_options_of_the_module_for_them() -> None:
    assert users_of(
        f'{PLAIN} required username="x" password="y" user_a="b" user_c_d="e";', "PlainLoginModule"
    ) == {
        "a": "b",
        "c_d": "e",
    }
    with pytest.raises(ValueError, match="has to be PlainLoginModule"):
        users_of('ScramLoginModule required user_a="b";', "PlainLoginModule")
    with pytest.raises(ValueError, match="has no name or no password"):
        users_of(f'{PLAIN} required user_a="";', "PlainLoginModule")
