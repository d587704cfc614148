"""How ports, folders and node ids are dealt out among workers."""

import socket
from pathlib import Path

import pytest

from kohort.broker.config import ConfigError
from kohort.broker.host.order import Order, Ports, check_distances, local, orders, own_address
from kohort.broker.host.worker_folders import part
from kohort.broker.transport.addresses import Address, Listener, bind

HTTP = Address("127.0.0.1", 9644)


def listeners(*ports: int) -> list[Listener]:
    return [Listener(Address("127.0.0.1", port)) for port in ports]


def test_each_worker_listens_on_the_shared_port_plus_its_number() -> None:
    assert [own_address(Address("h", 9092), number).port for number in (1, 2)] == [9093, 9094]
    assert own_address(Address("h", 0), 2).port == 0, "a free one"


@pytest.mark.parametrize("ports", [(9092, 9094), (9094, 9092), (9642,), (65_534,)])
def test_overlapping_ports_are_refused_before_any_is_opened(ports: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="2 workers take the 2 ports behind that of the listener"):
        check_distances(listeners(*ports), HTTP, 2)


def test_ports_far_enough_from_each_other_are_fine() -> None:
    check_distances(listeners(9092, 9095, 0, 0), HTTP, 2)


def test_the_first_worker_uses_the_folder_of_a_single_process() -> None:
    assert part(Path("/d"), 1) == Path("/d")
    assert part(Path("/d"), 3) == Path("/d/workers/3")


def test_a_worker_on_a_wildcard_address_is_reached_on_loopback() -> None:
    assert local(Address("0.0.0.0", 1)) == ("127.0.0.1", 1)
    assert local(Address("::", 1)) == ("::1", 1)
    assert local(Address("10.0.0.1", 1)) == ("10.0.0.1", 1)


def test_a_worker_with_a_certificate_is_reached_by_its_certified_name() -> None:
    assert local(Address("0.0.0.0", 1, "SASL_SSL")) is None
    assert local(Address("0.0.0.0", 1, "SASL_PLAINTEXT")) == ("127.0.0.1", 1)


def test_addresses_are_reserved_only_for_workers() -> None:
    ports = Ports(listeners(0), Address("127.0.0.1", 0), 2)
    try:
        (shared,) = ports.shared
        assert len({shared.port, ports.http.port, *(own.port for (own,) in ports.own)}) == 4
        with bind(shared, is_shared=True) as first, bind(shared, is_shared=True) as second:
            for each in (first, second):
                each.listen()
            with pytest.raises(OSError, match="cannot listen"):
                bind(shared)
            with socket.create_connection((shared.host, shared.port)):
                pass  # One of the two has it, and not who only keeps the address.
    finally:
        ports.close()


def test_an_order_contains_the_number_of_a_worker_and_all_addresses() -> None:
    common = Order(
        listeners=(Listener(Address("0.0.0.0", 0), Address("outside", 9092)),),
        http=HTTP,
        data="/d",
        log_format="json",
        log_level="info",
    )
    ports = Ports(common.listeners, Address("127.0.0.1", 0), 2)
    try:
        first, second = orders(common, ports, {"node.id": "7", "num.partitions": "3"}, 7)
        own = [each.port for (each,) in ports.own]
    finally:
        ports.close()
    assert (first.node_id, second.node_id) == (7, 8)
    assert second.settings == {"node.id": "8", "num.partitions": "3"}
    assert (first.http, second.http) == (ports.http, None)
    assert [each.listeners[0].advertise for each in (first, second)] == [
        Address("outside", 9093),
        Address("outside", 9094),
    ]
    assert second.addresses == {7: (("127.0.0.1", own[0]),), 8: (("127.0.0.1", own[1]),)}
    assert (first.data, second.data) == ("/d", "/d/workers/2")
