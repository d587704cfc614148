"""The file of `kohort forward`: what it says, and what it must not."""

from pathlib import Path

import pytest

from kohort.client.errors import ConfigurationError
from kohort.client.workers.windows import Order
from kohort.queues.forward.routing import Condition, Route
from kohort.queues.forward.settings import Destination, ForwardSettings, load_settings

LONG_ROUTE = f"{{ name = '{'r' * 60}', when = [{{ header = 'a' }}], url = 'https://shop.example/' }}"
ROUTE = "\n[[forward.route]]\nname='r'\nwhen=[{header='a'}]\n"
GOOD = """\
bootstrap_servers = "broker:9092"
allowed_hosts = ["shop.example", "10.0.0.0/8"]

[[forward]]
name = "orders"
topic = "orders"
url = "https://shop.example/orders"
order = "key"
retry_delays_ms = [500, 60000]
"""


def test_a_file_names_destinations(tmp_path: Path) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(GOOD)
    settings = load_settings(file)
    (orders,) = settings.forward
    assert (settings.bootstrap_servers, orders.group_id) == ("broker:9092", "forward-orders")
    assert orders.order is Order.KEY
    assert orders.retry_topics == ("forward-orders__retry-1", "forward-orders__retry-2")
    assert settings.find("orders") is orders
    with pytest.raises(ConfigurationError, match="orders"):
        settings.find("order")


@pytest.mark.parametrize(
    "was, becomes, words",
    [
        ("shop.example/", "elsewhere.example/", "not one of allowed_hosts"),
        ("https://shop.example/", "https://10.1.2.3@elsewhere.example/", "password"),
        ("https://shop.example/", "ftp://shop.example/", "give http"),
        ('order = "key"', 'order = "any"', "order"),
        ('order = "key"', "orders = 1", "unknown field"),
        ("https://shop.example/", "https://shop.example:99999/", "Port"),
        ("https://shop.example/", "https://shop.example:0/", "give http"),
        ("https://shop.example/", "https://shop..example/", "label"),
        ('name = "orders"', 'name = "bücher"', "letters, digits"),
        ('order = "key"', 'group_id = "a group"', "letters, digits"),
        ("[500, 60000]", "[60000, 500]", "have to rise"),
        ("[500, 60000]", "[86400001]", "86400000"),
        ('order = "key"', "rate_max = nan", "rate_max"),
        ('order = "key"', "rate_max = inf", "rate_max"),
        ('order = "key"', "rate_max = -1", "rate_max"),
        ("[500, 60000]", f"[1]{ROUTE}url='https://shop.example/'\nrate_max=nan", "limits of route"),
        ("[500, 60000]", f"[1]{ROUTE}url='https://shop.example/'\nrate_max=inf", "limits of route"),
        ('order = "key"', "delay_ms = 604800001", "delay_ms"),
        ('order = "key"', "delay_ms = -1", "delay_ms"),
        ('order = "key"', "share_every_ms = -1", "share_every_ms"),
        ('order = "key"', f"group_id = '{'g' * 245}'", "letters"),
        ('order = "key"', f"group_id = '{'g' * 200}'\nroute = [{LONG_ROUTE}]", "longer than 249"),
        ("[500, 60000]", f"[1]{ROUTE}url='https://elsewhere.example/'", "not one of allowed_hosts"),
        ("[500, 60000]", f"[1]{ROUTE}url='grpc://shop.example/a.B/c'", "all of them by gRPC"),
        ("[500, 60000]", f"[1]{ROUTE}action='push'", "has a url"),
        ("[500, 60000]", f"[1]{ROUTE}url='ftp://shop.example/'", "give http"),
        ("[500, 60000]", f"[1]{ROUTE}url='https://shop.example:99999/'", "Port"),
        ("[500, 60000]", f"[1]{ROUTE}url='https://shop..example/'", "label"),
        ("[500, 60000]", f"[1]{ROUTE}url='http://[::1/'", "Invalid IPv6"),
        ("[500, 60000]", f"[1]{ROUTE}action='drop'{ROUTE}action='dead'", "same name"),
        ("[500, 60000]", f"[1]{ROUTE}action='drop'\ncolour=1", "unknown field"),
        ('topic = "orders"\n', "", "topic"),
        ("[[forward]]", "[[forward", "forward.toml"),
    ],
)
def test_a_mistake_is_said_with_the_files_name(tmp_path: Path, was: str, becomes: str, words: str) -> None:
    file = tmp_path / "forward.toml"
    assert was in GOOD
    file.write_text(GOOD.replace(was, becomes))
    with pytest.raises(ConfigurationError, match=words) as raised:
        load_settings(file)
    assert "forward.toml" in str(raised.value)


def test_no_two_destinations_share_a_group_by_which_their_topics_are_called() -> None:
    first = Destination(name="a", topic="t", url="http://localhost/")
    second = Destination(name="b", topic="u", url="http://localhost/", group_id="forward-a")
    with pytest.raises(ConfigurationError, match="same group_id"):
        ForwardSettings(forward=(first, second))


def test_topics_of_routes_and_delays_that_are_gone_are_known_as_left_over() -> None:
    route = Route(name="eu", when=(Condition(header="a"),), url="http://localhost/")
    destination = Destination(
        name="d", topic="t", url="http://localhost/", route=(route,), retry_delays_ms=(1,)
    )
    named = (
        "retry-1",
        "retry-2",
        "retry-x",
        "route",
        "route-eu",
        "route-us",
        "dead",
        "stash",
        "other",
        "route-eu__west",
    )
    found = [each for each in named if destination.is_left_over(f"forward-d__{each}")]
    assert found == ["retry-2", "route-us", "route-eu__west"]
    assert not destination.is_left_over("forward-e__route-us")
    assert not destination.is_left_over("forward-d__route-us__dead"), "that is another group's"


@pytest.mark.parametrize(
    "url, own, expected",
    [
        ("https://shop.example/eu", None, "/token"),
        ("https://SHOP.example:443/eu", None, "/token"),
        ("https://shop.example/eu", "", ""),
        ("https://shop.example/eu", "/other", "/other"),
        ("https://elsewhere.example/", None, ""),
        ("https://eu.shop.example/", None, ""),
        ("https://shop.example:8443/", None, ""),
        ("http://shop.example/", None, ""),
        ("http://shop.example:443/", None, ""),
        ("http://elsewhere.example/", "/other", "/other"),
    ],
)
def test_a_route_has_the_destinations_token_at_the_same_origin_alone(
    url: str, own: str | None, expected: str
) -> None:
    route = Route(name="r", when=(Condition(header="a"),), url=url, token_file=own)
    token = {"token_file": "/token", "ca_file": "/ca"}
    shop = Destination(name="d", topic="t", url="https://shop.example/orders", route=(route,), **token)  # type: ignore[arg-type]
    service = shop.services["r"]
    assert (service.url, service.token_file, service.ca_file) == (url, expected, "/ca")
    assert shop.services[""].token_file == "/token"


def test_a_file_says_that_a_route_has_no_token(tmp_path: Path) -> None:
    file = tmp_path / "forward.toml"
    of_route = f"{ROUTE}url='https://shop.example/eu'\n"
    file.write_text(GOOD + "token_file='/token'\n" + of_route + "token_file=''\n")
    assert load_settings(file).forward[0].services["r"].token_file == ""
    file.write_text(GOOD + "token_file='/token'\n" + of_route)
    assert load_settings(file).forward[0].services["r"].token_file == "/token"


def test_an_address_in_a_network_that_is_allowed_is(tmp_path: Path) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(GOOD.replace("https://shop.example/", "http://10.1.2.3:80/"))
    assert load_settings(file).forward[0].parts.hostname == "10.1.2.3"


@pytest.mark.parametrize(
    "attempts, asked_ms, topic, waits_ms",
    [
        (1, None, 0, 1_000),
        (2, None, 1, 10_000),
        (9, None, 2, 60_000),
        (1, 0, 0, 0),
        (1, 1_001, 1, 1_001),
        (1, 86_400_000, 2, 86_400_000),
    ],
)
def test_a_retry_goes_where_it_waits_least_for_others(
    attempts: int, asked_ms: int | None, topic: int, waits_ms: int
) -> None:
    destination = Destination(name="d", topic="t", url="http://h/")
    assert destination.retry_topic(attempts, asked_ms) == (destination.retry_topics[topic], waits_ms)
