"""The virtual network: streams that keep order, and all that can happen to them."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trio

from kohort.testing.simulation.ends import End
from kohort.testing.simulation.kernel import SECOND, Kernel, Process
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.sockets import READ, WRITE, Sockets, VirtualPoller
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network


class Machines:
    """A kernel, a network, and trio programs on it."""

    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)

    def run(self, name: str, main: Callable[..., Any], *arguments: object) -> TrioProcess:
        """Begin a trio program on a host of that name."""
        process = TrioProcess(self.kernel, name, main, *arguments)
        put_on_network(process, self.network, self.network.host(name))
        return process

    def until_ended(self, *processes: Process) -> None:
        """Go on until they have ended."""
        self.kernel.run(lambda: not any(each.alive for each in processes))


async def echo(stream: trio.SocketStream) -> None:
    async for data in stream:
        await stream.send_all(data)


async def serve_echo(port: int = 9000) -> None:
    async with trio.open_nursery() as nursery:
        sock = trio.socket.socket()
        await sock.bind(("0.0.0.0", port))  # On a network that is not real.
        sock.listen()
        while True:
            connection, _ = await sock.accept()
            nursery.start_soon(echo, trio.SocketStream(connection))


async def exchange(data: bytes) -> bytes:
    async with await trio.open_tcp_stream("server", 9000) as stream:
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            while len(received) < len(data):
                piece = await stream.receive_some(10_000)
                assert piece
                received += piece
        return bytes(received)


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_whole_and_in_order_however_much_is_sent(seed: int) -> None:
    machines = Machines(seed)
    machines.run("server", serve_echo)
    data = machines.kernel.random.randbytes(3_000_000)
    client = machines.run("client", exchange, data)
    machines.until_ended(client)
    assert client.outcome is not None
    assert client.outcome.unwrap() == data
    machines.kernel.close()


def test_nobody_listens() -> None:
    machines = Machines()
    machines.network.host("server")
    client = machines.run("client", exchange, b"hello")
    machines.until_ended(client)
    with pytest.raises(OSError, match="all attempts"):
        client.outcome.unwrap()  # type: ignore[union-attr]


def test_a_name_that_nobody_has() -> None:
    machines = Machines()
    client = machines.run("client", exchange, b"hello")
    machines.until_ended(client)
    with pytest.raises(OSError, match="not known"):
        client.outcome.unwrap()  # type: ignore[union-attr]


def test_a_cut_link_holds_what_is_sent_until_it_is_mended() -> None:
    machines = Machines()
    machines.run("server", serve_echo)
    client = machines.run("client", exchange, b"x" * 100_000)
    network, kernel = machines.network, machines.kernel
    hosts = network.host("client"), network.host("server")
    kernel.call_after(SECOND // 200, lambda: network.cut(hosts[1], hosts[0]))
    kernel.call_after(30 * SECOND, lambda: network.mend(hosts[1], hosts[0]))
    kernel.run_for(29 * SECOND)
    assert client.alive
    machines.until_ended(client)
    assert client.outcome is not None
    assert client.outcome.unwrap() == b"x" * 100_000


def test_who_dies_closes_its_connections() -> None:
    machines = Machines()
    server = machines.run("server", serve_echo)

    async def talk() -> bytes:
        async with await trio.open_tcp_stream("server", 9000) as stream:
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"hello"
            return bytes(await stream.receive_some())

    client = machines.run("client", talk)
    machines.kernel.call_after(SECOND, server.kill)
    machines.until_ended(client)
    assert client.outcome is not None
    assert client.outcome.unwrap() == b""


def test_a_host_without_power_says_nothing_and_knows_nothing_when_it_is_back() -> None:
    machines = Machines()
    network, kernel = machines.network, machines.kernel
    server = machines.run("server", serve_echo)
    seen = list[float]()

    async def talk() -> None:
        async with await trio.open_tcp_stream("server", 9000) as stream:
            await stream.send_all(b"hello")
            await stream.receive_some()
            await trio.sleep(2)
            await stream.send_all(b"are you there?")
            try:
                await stream.receive_some()
            except trio.BrokenResourceError:
                seen.append(trio.current_time())

    def lose_power() -> None:
        network.lose_power(network.host("server"))
        server.kill()

    client = machines.run("client", talk)
    kernel.call_after(SECOND, lose_power)
    kernel.call_after(10 * SECOND, lambda: network.power_on(network.host("server")))
    machines.until_ended(client)
    assert client.outcome is not None
    client.outcome.unwrap()
    assert seen
    assert seen[0] >= 10


def test_httpx_speaks_over_it() -> None:
    machines = Machines()

    async def answer() -> None:
        sock = trio.socket.socket()
        await sock.bind(("server", 80))
        sock.listen()
        connection, _ = await sock.accept()
        stream = trio.SocketStream(connection)
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def ask() -> str:
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get("http://server/")).text

    machines.run("server", answer)
    client = machines.run("client", ask)
    machines.until_ended(client)
    assert client.outcome is not None
    assert client.outcome.unwrap() == "ok"


def test_the_poller_reports_as_long_as_a_socket_is_ready() -> None:
    kernel = Kernel(1)
    network = Network(kernel)
    process = Process(kernel, "broker")
    sockets = Sockets(network, network.host("broker"), process)
    poller, woken = VirtualPoller(sockets), list[int]()
    poller.on_ready = lambda: woken.append(kernel.time_ns)
    here, there = sockets.pair()
    poller.register(here.fileno(), READ)
    assert not poller.poll()
    there.send(b"hello")
    kernel.run_for(SECOND)
    assert woken
    assert poller.poll() == [(here.fileno(), READ)] == poller.poll()
    assert here.recv(3) == b"hel"
    assert poller.poll() == [(here.fileno(), READ)]
    assert here.recv(100) == b"lo"
    assert not poller.poll()
    poller.modify(here.fileno(), READ | WRITE)
    assert poller.poll() == [(here.fileno(), WRITE)]
    there.close()
    kernel.run_for(SECOND)
    assert poller.poll() == [(here.fileno(), READ | WRITE)]
    assert here.recv(100) == b""
    poller.close()


def test_the_same_seed_gives_the_same_times() -> None:
    def times(seed: int) -> list[int]:
        machines = Machines(seed)
        machines.run("server", serve_echo)
        clients = [machines.run(f"client-{i}", exchange, b"y" * 50_000) for i in range(5)]
        ended = list[int]()
        for each in clients:
            each.on_death[lambda: ended.append(machines.kernel.time_ns)] = None
        machines.until_ended(*clients)
        machines.kernel.run_for(SECOND)
        machines.kernel.close()
        return ended

    assert times(3) == times(3)
    assert times(3) != times(4)


def test_who_waits_for_room_hears_that_a_host_without_power_is_back() -> None:
    machines = Machines()
    network, kernel = machines.network, machines.kernel

    async def read_nothing() -> None:
        sock = trio.socket.socket()
        await sock.bind(("server", 9000))
        sock.listen()
        _connection = await sock.accept()
        await trio.sleep_forever()

    async def send() -> None:
        stream = await trio.open_tcp_stream("server", 9000)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x" * 1_000_000)

    server, client = machines.run("server", read_nothing), machines.run("client", send)

    def lose_power() -> None:
        network.lose_power(network.host("server"))
        server.kill()

    kernel.call_after(5 * SECOND, lose_power)
    kernel.call_after(10 * SECOND, lambda: network.power_on(network.host("server")))
    kernel.run(lambda: not client.alive, 60)
    assert client.error is None


class Pair:
    """A connection between the hosts `client` and `server`, with nothing but its two ends."""

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.network = Network(self.kernel)
        self.client, self.server = self.network.host("client"), self.network.host("server")
        self.process = Process(self.kernel, "client")
        self.accepted: list[End] = []
        self.connected: list[End] = []
        self.failures: list[OSError] = []
        self.network.listen(Process(self.kernel, "server"), self.server, 80, self.accepted.append)

    def connect(self) -> Callable[[], None]:
        """Begin a connection. Return what gives it up."""
        return self.network.connect(
            self.process, self.client, ("server", 80), self.connected.append, self.failures.append
        )


def test_a_connection_that_is_given_up_or_times_out_leaves_nothing_open() -> None:
    pair = Pair()
    give_up = pair.connect()
    pair.kernel.run_for(SECOND)
    assert pair.connected
    give_up()  # Nobody takes it.
    pair.network.cut(pair.server, pair.client)
    pair.connect()
    pair.kernel.run_for(200 * SECOND)
    assert isinstance(pair.failures[0], TimeoutError)
    assert not pair.client.ends
    assert [each.error is not None for each in pair.accepted] == [True, True]


def test_a_host_without_power_neither_answers_nor_sends_again() -> None:
    pair = Pair()
    pair.connect()
    pair.kernel.run_for(SECOND)
    pair.network.cut(pair.server, pair.client)
    pair.kernel.run_for(SECOND)
    pair.accepted[0].send(b"an answer that did not get out")
    pair.connected[0].send(b"hello")
    pair.network.cut(pair.client, pair.server)
    pair.kernel.run_for(SECOND)
    pair.network.lose_power(pair.server)
    pair.network.mend_all()
    pair.kernel.run_for(120 * SECOND)
    assert not pair.connected[0].is_readable
    assert pair.connected[0].error is None


def test_a_connection_that_comes_about_while_it_is_cancelled_ends_nothing_else() -> None:
    machines = Machines()
    machines.run("server", serve_echo)
    client = machines.run("client", exchange, b"hello")
    machines.kernel.run_for(SECOND // 10_000)
    client.pause(SECOND)
    machines.kernel.call_after(SECOND // 2, client.cancel)
    machines.until_ended(client)
    assert client.error is None


def connected_pair() -> Pair:
    pair = Pair()
    pair.connect()
    pair.kernel.run_for(SECOND)
    return pair


@pytest.mark.parametrize("close", ["close", "abort", "end"])
def test_what_a_silent_process_closes_is_closed_when_it_dies(close: str) -> None:
    pair = connected_pair()
    end = pair.accepted[0]
    pair.server.is_silent = True
    getattr(end, close)()
    pair.kernel.run_for(SECOND)
    assert not pair.connected[0].is_readable
    pair.server.is_silent = False
    assert end.process is not None
    end.process.kill()
    pair.kernel.run_for(SECOND)
    assert pair.connected[0].receive(10) == b""


def test_what_a_silent_host_without_power_has_closed_is_reset_once_it_is_back() -> None:
    pair = connected_pair()
    pair.server.is_silent = True
    pair.accepted[0].close()
    pair.server.is_silent = False
    pair.network.lose_power(pair.server)
    pair.kernel.run_for(SECOND)
    assert pair.connected[0].error is None
    pair.network.power_on(pair.server)
    pair.connected[0].send(b"hello")
    pair.kernel.run_for(SECOND)
    assert pair.connected[0].error is not None


def fill_up(end: End) -> None:
    while end.send(b"x" * 100_000):
        pass


def test_room_that_a_silent_or_dead_host_has_made_is_not_forgotten() -> None:
    pair = connected_pair()
    sender, receiver = pair.connected[0], pair.accepted[0]
    fill_up(sender)
    pair.kernel.run_for(SECOND)
    pair.server.is_silent = True
    while receiver.receive(100_000):
        pass
    pair.server.is_silent = False
    pair.network.lose_power(pair.server)
    pair.network.power_on(pair.server)
    pair.kernel.run_for(SECOND)
    assert sender.error is not None


def test_room_is_told_behind_a_cut() -> None:
    pair = connected_pair()
    sender, receiver, told = pair.connected[0], pair.accepted[0], list[int]()
    sender.on_change = lambda: told.append(sender.send(b"y"))
    fill_up(sender)
    pair.kernel.run_for(SECOND)
    pair.network.cut(pair.server, pair.client)
    while receiver.receive(100_000):
        pass
    pair.kernel.run_for(SECOND)
    assert not told
    pair.network.mend(pair.server, pair.client)
    pair.kernel.run_for(70 * SECOND)
    assert told[0] == 1


def test_an_end_that_a_host_sent_before_it_lost_its_power_is_not_sent_again() -> None:
    pair = connected_pair()
    pair.network.cut(pair.server, pair.client)
    pair.accepted[0].close()
    pair.network.lose_power(pair.server)
    pair.network.mend_all()
    pair.kernel.run_for(70 * SECOND)
    assert not pair.connected[0].is_readable
