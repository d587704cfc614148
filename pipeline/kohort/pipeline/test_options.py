"""The names under which an option may be given."""

import pytest

from kohort.pipeline.errors import OptionError
from kohort.pipeline.options import read_options


@pytest.mark.parametrize(
    "name", ["bootstrap", "bootstrap_servers", "bootstrap.servers", "kafka.bootstrap.servers", "Bootstrap"]
)
def test_brokers_are_named_as_other_sources_and_clients_name_them(name: str) -> None:
    assert read_options({name: "here:9092", "topics": "t"}).servers.bootstrap == "here:9092"


def test_two_names_that_differ_are_an_error() -> None:
    given = {"bootstrap": "here:9092", "kafka.bootstrap.servers": "there:9092", "topics": "t"}
    with pytest.raises(OptionError, match=r"bootstrap and kafka\.bootstrap\.servers differ"):
        read_options(given)
    assert read_options(given | {"bootstrap": "there:9092"}).servers.bootstrap == "there:9092"


def test_a_table_without_options_names_the_view_that_has_them() -> None:
    with pytest.raises(OptionError, match="use CREATE TEMPORARY VIEW"):
        read_options({})
    with pytest.raises(OptionError, match=r"give HOST:PORT of a broker$"):
        read_options({"topics": "t"})
