"""Folders from life to life: stopped, killed, restored, on a machine that lost its power."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kohort.broker.cluster.folder_life import FILE_NAME, FolderLife
from kohort.storage import DataDirectory
from kohort.storage.memory_filesystem import MemoryFileSystem


class Machine:
    """One folder, and what the cluster has heard of it."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.boot_id = "first"
        self.registered: UUID | None = None
        self.data: DataDirectory | None = None

    def start(self, *, registers: bool = True, is_synced: bool = True, is_short: bool = False) -> FolderLife:
        """Return the next life, which begins and, unless it dies before, registers."""
        if self.data is not None:
            self.data._lock = None  # The process is gone.
        self.data = DataDirectory.open(Path("/data"), self.files)
        self.data.write_meta("cluster", 1)
        life = FolderLife(self.data, self.registered, self.boot_id)
        life.begin(is_synced=is_synced, is_short=is_short)
        if registers:
            self.registered = life.incarnation_id
        return life


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_killed_broker_keeps_its_place(machine: Machine) -> None:
    ids = {machine.start(is_synced=is_synced).directory_id for is_synced in (True, True, False)}
    assert len(ids) == 1


def test_a_broker_that_died_before_it_registered_keeps_its_place(machine: Machine) -> None:
    first = machine.start()
    machine.start(registers=False)
    machine.start(registers=False)
    assert machine.start().directory_id == first.directory_id


def test_a_log_that_is_short_makes_the_folder_another(machine: Machine) -> None:
    first = machine.start()
    second = machine.start(is_short=True)
    assert second.directory_id != first.directory_id
    assert second.former_directories == (first.directory_id,)
    third = machine.start()
    assert (third.directory_id, third.former_directories) == (second.directory_id, second.former_directories)


def test_a_machine_that_restarted_has_lost_what_was_not_synced(machine: Machine) -> None:
    first = machine.start(is_synced=False)
    machine.boot_id = "second"
    synced = machine.start()
    assert synced.directory_id == first.directory_id
    machine.boot_id = "third"
    assert machine.start(is_synced=False).former_directories == (first.directory_id,)


def test_a_folder_of_an_earlier_life_is_another(machine: Machine) -> None:
    first = machine.start()
    for _ in range(3):
        machine.registered = uuid4()  # Lives that a backup knows nothing of.
    restored = machine.start()
    assert restored.former_directories == (first.directory_id,)
    assert machine.start().directory_id == restored.directory_id


def test_a_new_folder_has_no_former_id(machine: Machine) -> None:
    machine.registered = uuid4()
    assert machine.start().former_directories == ()


def test_a_damaged_file_speaks_for_nothing(machine: Machine) -> None:
    first = machine.start()
    machine.files.replace(Path("/data") / FILE_NAME, b'{"lives": [')
    assert machine.start().former_directories == (first.directory_id,)


def test_who_dies_between_losing_its_id_and_its_first_life_under_another_is_judged_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.start(is_synced=False)
    machine.boot_id = "second"
    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "renew_directory_id", _dies)
        with pytest.raises(KeyboardInterrupt):
            machine.start(is_synced=False)
    again = machine.start(is_synced=False)
    assert again.directory_id != first.directory_id
    assert again.former_directories == (first.directory_id,)


def _dies(*_: object) -> None:
    raise KeyboardInterrupt
