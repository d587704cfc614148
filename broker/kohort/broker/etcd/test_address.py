"""What --cluster takes, and what is said of what it does not."""

import pytest

from kohort.broker.etcd.address import ClusterAddressError, cluster_address


def test_endpoints_are_tried_in_the_order_of_the_text() -> None:
    address = cluster_address("etcd://h1:2379,h2:23790/orders")
    assert address.endpoints == ("http://h1:2379", "http://h2:23790")
    assert (address.name, address.is_encrypted) == ("orders", False)


def test_a_port_is_optional_and_an_address_can_be_ipv6() -> None:
    assert cluster_address("etcd://h1,[::1]:99/a").endpoints == ("http://h1:2379", "http://[::1]:99")


def test_etcds_means_tls() -> None:
    address = cluster_address("etcds://h1/a")
    assert (address.endpoints, address.is_encrypted) == (("https://h1:2379",), True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h1:2379/orders", "is not etcd://"),
        ("http://h1:2379/orders", "is not etcd://"),
        ("etcd://h1:2379", "does not end with the cluster's name"),
        ("etcd://h1:2379/", "does not end with the cluster's name"),
        ("etcd://h1:2379/a/b", "does not end with the cluster's name"),
        ("etcd:///orders", "'' in 'etcd:///orders' is not HOST:PORT"),
        ("etcd://h1:2379,/orders", "is not HOST:PORT"),
        ("etcd://h1:0/orders", "is not HOST:PORT"),
        ("etcd://h1:65536/orders", "is not HOST:PORT"),
        ("etcd://me:secret@h1/orders", "kohort.etcd.user"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ClusterAddressError, match=said) as caught:
        cluster_address(text)
    assert "\n" not in str(caught.value)
