"""Whether a broker is a member of a cluster, and of which."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.broker.composition.folder import new_cluster_id, open_folder
from kohort.broker.composition.machine import Machine
from kohort.broker.composition.standalone import Standalone
from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.transport.addresses import BrokerAddresses
from kohort.storage import DataDirectory, FileSystem, OsFileSystem

if TYPE_CHECKING:
    from kohort.broker.cluster.member import ClusterMember
    from kohort.broker.composition.membership import Membership

Join = Callable[[DataDirectory], AbstractAsyncContextManager["ClusterMember"]]
"""Gives the member of a cluster that has this data folder."""


def parts_of(
    cluster: "ClusterMember | None",
    current: CurrentConfig,
    path: Path,
    filesystem: FileSystem,
    leadership_counters: LeadershipCounters,
    *,
    forget_stored_settings: bool,
) -> "Standalone | Membership":
    """Return the parts of a broker alone, or of this member of a cluster. Raises: StorageError."""
    if cluster is None:
        return Standalone(current, path, filesystem, forget_stored_settings=forget_stored_settings)
    from kohort.broker.composition.membership import Membership  # noqa: PLC0415  # Only clusters import it.

    return Membership(cluster, current, leadership_counters)


@asynccontextmanager
async def member_of_cluster(
    config: BrokerConfig,
    places: BrokerAddresses,
    filesystem: FileSystem | None,
    machine: Machine,
    join: "Join | None" = None,
) -> AsyncIterator["ClusterMember | None"]:
    """Give the member of the cluster that `join` or the settings name, None for a broker alone.

    Raises: StorageError, ConfigError.
    """
    if join is not None:
        async with join(open_folder(places.data, filesystem or OsFileSystem())) as member:
            yield member
        return
    if config.kohort_cluster is None:
        yield None
        return
    try:
        from kohort.broker.cluster.member import joined  # noqa: PLC0415  # A broker alone does not pay for it.
        from kohort.broker.cluster.options import cluster_options  # noqa: PLC0415
        from kohort.broker.etcd import client  # noqa: F401, PLC0415  # It is what needs httpx.
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        raise ConfigError('a cluster needs httpx: pip install "kohort[cluster]"') from None
    options = cluster_options(config)
    assert options is not None
    data = open_folder(places.data, filesystem or OsFileSystem())
    async with joined(options, data, config.node_id, new_cluster_id(), machine.boot_id()) as member:
        yield member
