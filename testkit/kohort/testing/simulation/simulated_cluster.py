"""Several real brokers on hosts of their own, with their metadata in a simulated etcd."""

from collections.abc import Mapping

from kohort.testing.cluster import defaults
from kohort.testing.simulation.etcd import SimulatedEtcd
from kohort.testing.simulation.kernel import Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.simulated_broker import SimulatedBroker


class SimulatedCluster:
    """Brokers 1 to `count`, named `broker-1` and so on, and the etcd that they share."""

    def __init__(
        self, kernel: Kernel, network: Network, count: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start all. `settings` are those of each broker's `server.properties`."""
        self.etcd = SimulatedEtcd(kernel, network)
        common = {name: str(value) for name, value in defaults(count).items()}
        del common["replica.lag.time.max.ms"]  # Nobody advances the time by hand.
        self.brokers = {
            number: SimulatedBroker(
                kernel,
                network,
                f"broker-{number}",
                {
                    **common,
                    **(settings or {}),
                    "kohort.cluster": f"etcd://{self.etcd.addresses}/simulated",
                    "node.id": str(number),
                    "broker.rack": f"rack-{number}",
                },
            )
            for number in range(1, count + 1)
        }

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    @property
    def is_complete(self) -> bool:
        """Whether each broker serves and knows all others."""
        serving = [each.broker for each in self.brokers.values() if each.broker is not None]
        return len(serving) == len(self.brokers) and all(
            len(each.metadata.snapshot().brokers) == len(self.brokers) for each in serving
        )
