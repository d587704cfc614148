"""`kohort serve --workers N`: the supervisor, which keeps metadata and workers, and serves no client."""

from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from kohort.broker import ephemeral
from kohort.broker.composition.folder import new_cluster_id
from kohort.broker.config import BrokerConfig, ConfigError, ConfigSource
from kohort.broker.host.holdings import check_workers
from kohort.broker.host.key_log import KeyLog
from kohort.broker.host.keys_server import KeysServer
from kohort.broker.host.order import WORKERS_MAX, Order, Ports, orders
from kohort.broker.host.relay import Relay
from kohort.broker.host.worker_folders import FOLDER, KEYS_FILE, part
from kohort.broker.host.worker_process import WorkerProcess
from kohort.broker.metadata.embedded import has_kraft_metadata
from kohort.broker.metadata.file import MetadataFile
from kohort.broker.runtime.private_folder import keep_private
from kohort.broker.serving import say_listening, stop_signals, stopped_by
from kohort.storage import FileSystem, OsFileSystem, StorageError
from kohort.storage.data_directory import LOCK, META_PROPERTIES
from kohort.storage.layout import MetaProperties

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

EARLIER_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.1

log = structlog.get_logger("kohort.host")


async def supervise(common: Order, config: BrokerConfig) -> None:
    """Serve with as many workers as the settings say, until a signal.

    Raises: ConfigError, StorageError, OSError where the start fails.
    """
    check_settings(config)
    data = Path(common.data)
    files = ephemeral.file_system() if common.is_ephemeral else OsFileSystem()
    with trio.open_signal_receiver(*stop_signals()) as signals, locked(files, data):
        key_log = KeyLog(files, data / FOLDER / KEYS_FILE)
        check_folder(files, data, key_log)
        check_workers(key_log.entries, config.node_id, config.kohort_workers)
        with taken(common, config) as ports:
            await until_free(files, data, config.kohort_workers)
            server = KeysServer(key_log)
            common = msgspec.structs.replace(common, cluster_id=cluster_id_of(files, data))
            settings = dict(config.layer(ConfigSource.STATIC_BROKER))
            relay = Relay()
            workers = [
                WorkerProcess(each, server, relay) for each in orders(common, ports, settings, config.node_id)
            ]
            await serve(server, workers, signals, ports, data)
    log.info("stopped")


async def serve(
    server: KeysServer,
    workers: "list[WorkerProcess]",
    signals: "AsyncIterator[int]",
    ports: Ports,
    data: Path,
) -> None:
    """Keep the workers running until they have ended after a signal.

    Raises: OSError if one does not start.
    """

    async def stop() -> None:
        async for number in signals:
            stopped_by(number)
            server.keep_leases()
            for each in workers:
                each.stop()

    async def say() -> None:
        for each in workers:
            await each.ready.wait()
        say_listening(ports.shared, ports.http, data)

    async with trio.open_nursery() as nursery:
        for task in (server.run, stop, say):
            nursery.start_soon(task)
        async with trio.open_nursery() as running:
            for each in workers:
                running.start_soon(each.run)
        nursery.cancel_scope.cancel()


def check_settings(config: BrokerConfig) -> None:
    """Return if these settings are for workers. Raises: ConfigError."""
    if not 1 <= config.kohort_workers <= WORKERS_MAX:
        raise ConfigError(f"kohort.workers={config.kohort_workers}: must be from 1 to {WORKERS_MAX}")
    if config.kohort_cluster is not None:
        raise ConfigError(
            "--workers and --cluster: the workers of one host are a cluster of their own; for one of several "
            "hosts start a broker each, with a node id and a folder of its own"
        )


def check_folder(files: FileSystem, data: Path, key_log: KeyLog) -> None:
    """Return if the folder's metadata are there, or nothing else is. Raises: StorageError."""
    if key_log.entries:
        return
    second = part(data, 2)
    if files.list_directory(second) is not None:
        raise StorageError(
            f"{data / FOLDER / KEYS_FILE} is missing, but there are parts of workers such as {second}: "
            "put the file back, or begin in an empty folder"
        )
    if not has_kraft_metadata(files, data):
        MetadataFile(files, data).load()


def cluster_id_of(files: FileSystem, data: Path) -> str:
    """Return the id of the folder's cluster, or a new one. Raises: StorageError."""
    content = files.read(data / META_PROPERTIES)
    return new_cluster_id() if content is None else MetaProperties.decode(content).cluster_id


@contextmanager
def taken(common: Order, config: BrokerConfig) -> "Iterator[Ports]":
    """Give the addresses, which are this supervisor's within the block. Raises: ConfigError, OSError."""
    assert common.http is not None
    ports = Ports(common.listeners, common.http, config.kohort_workers)
    try:
        yield ports
    finally:
        ports.close()


@contextmanager
def locked(files: FileSystem, data: Path) -> "Iterator[None]":
    """Hold the folder against other supervisors within the block. Raises: StorageError."""
    keep_private(files, data)
    try:
        files.make_directory(data / FOLDER)
        lock = files.lock(data / FOLDER / LOCK)
    except OSError as error:
        raise StorageError(f"{data} cannot be used as a data folder: {error}") from error
    if lock is None:
        raise StorageError(f"{data} is in use by another process: stop it, or take another folder")
    yield
    del lock


async def until_free(files: FileSystem, data: Path, workers: int) -> None:
    """Return when the workers of an earlier supervisor, which was killed, have ended.

    Raises: StorageError where somebody keeps a part of the folder.
    """
    with trio.move_on_after(EARLIER_SECONDS_MAX):
        for folder in in_use(files, data, workers):
            log.info("waiting for an earlier process to end", folder=str(folder))
            while not is_free(files, folder):
                await trio.sleep(LOOK_SECONDS)
        return
    raise StorageError(f"{data} is in use by another process: stop it, or take another folder")


def in_use(files: FileSystem, data: Path, workers: int) -> "Iterable[Path]":
    """Yield the parts of the folder that another process has."""
    folders = (part(data, number) for number in range(1, workers + 1))
    return (each for each in folders if not is_free(files, each))


def is_free(files: FileSystem, folder: Path) -> bool:
    """Whether no process has the folder, or there is none."""
    return files.list_directory(folder) is None or files.lock(folder / LOCK) is not None
