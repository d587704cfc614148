"""Folders from life to life: stopped, killed, restored, on a machine that lost its power."""

from pathlib import Path
from uuid import UUID, uuid4

import msgspec
import pytest

from kohort.broker.cluster.folder_life import FILE_NAME, FolderLife, Lives
from kohort.storage import DataDirectory
from kohort.storage.memory_filesystem import MemoryFileSystem


class Machine:
    """One folder, and what the cluster has heard of it."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.boot_id = "first"
        self.registered: UUID | None = None
        self.data: DataDirectory | None = None

    def start(
        self, *, registers: bool = True, leaves_unsynced: bool = False, is_short: bool = False
    ) -> FolderLife:
        """Return the next life, which begins and, unless it dies before, registers."""
        if self.data is not None:
            self.data._lock = None  # The process is gone.
        self.data = DataDirectory.open(Path("/data"), self.files)
        self.data.write_meta("cluster", 1)
        life = FolderLife(self.data, self.registered, self.boot_id)
        life.begin(is_short=is_short)
        if leaves_unsynced:
            life.note_unsynced(True)
        if registers:
            self.registered = life.incarnation_id
        return life


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_killed_broker_keeps_its_directory_id(machine: Machine) -> None:
    ids = {machine.start(leaves_unsynced=each).directory_id for each in (False, True, True, False)}
    assert len(ids) == 1


def test_a_broker_that_died_before_registration_keeps_its_directory_id(machine: Machine) -> None:
    first = machine.start()
    machine.start(registers=False)
    machine.start(registers=False)
    assert machine.start().directory_id == first.directory_id


def test_a_log_that_is_too_short_gives_the_folder_a_new_directory_id(machine: Machine) -> None:
    first = machine.start()
    second = machine.start(is_short=True)
    assert second.directory_id != first.directory_id
    assert second.former_directories == (first.directory_id,)
    third = machine.start()
    assert (third.directory_id, third.former_directories) == (second.directory_id, second.former_directories)


def test_a_reboot_with_unsynced_data_gives_the_folder_a_new_directory_id(machine: Machine) -> None:
    first = machine.start()
    machine.boot_id = "second"
    lax = machine.start(leaves_unsynced=True)
    assert lax.directory_id == first.directory_id
    machine.boot_id = "third"
    assert machine.start().former_directories == (first.directory_id,)


def test_unsynced_data_that_was_synced_later_does_not_change_the_directory_id(machine: Machine) -> None:
    first = machine.start(leaves_unsynced=True)
    first.note_unsynced(False)
    machine.boot_id = "second"
    assert machine.start().directory_id == first.directory_id


def test_the_next_process_syncs_what_a_killed_process_had_not_synced(machine: Machine) -> None:
    first = machine.start(leaves_unsynced=True)
    machine.start()  # It has opened, and so synced, every log.
    machine.boot_id = "second"
    assert machine.start().directory_id == first.directory_id


def test_a_failed_sync_of_unsynced_data_still_counts_after_later_starts(
    machine: Machine,
) -> None:
    first = machine.start(leaves_unsynced=True)
    first.note_failed_sync()
    second = machine.start()
    assert second.former_directories == (first.directory_id,)
    assert machine.start().directory_id == second.directory_id


def test_a_crash_while_the_unsynced_note_is_written_never_hides_unsynced_data(machine: Machine) -> None:
    life = machine.start()
    before = len(machine.files.operations)
    life.note_unsynced(True)
    noted = len(machine.files.operations)
    life.note_unsynced(False)
    for count in range(before, len(machine.files.operations) + 1):
        survivor = machine.files.after_crash(count, lambda _: 0)
        says = msgspec.json.decode(survivor.read(Path("/data") / FILE_NAME) or b"{}", type=Lives)
        assert says.lives == (life.incarnation_id,)
        assert says.has_unsynced or count != noted


def test_a_file_of_an_earlier_version_is_not_taken_for_fully_synced(machine: Machine) -> None:
    first = machine.start()
    content = f'{{"lives": ["{first.incarnation_id}"], "boot_id": "first"}}'
    machine.files.replace(Path("/data") / FILE_NAME, content.encode())
    assert machine.start().directory_id == first.directory_id, "the machine has run since"
    machine.files.replace(Path("/data") / FILE_NAME, content.encode())
    machine.registered = first.incarnation_id
    machine.boot_id = "second"
    assert machine.start().directory_id != first.directory_id


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


def test_a_damaged_file_gives_the_folder_a_new_directory_id(machine: Machine) -> None:
    first = machine.start()
    machine.files.replace(Path("/data") / FILE_NAME, b'{"lives": [')
    assert machine.start().former_directories == (first.directory_id,)


def test_a_crash_between_the_loss_of_a_directory_id_and_the_next_registration_is_detected(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.start(leaves_unsynced=True)
    machine.boot_id = "second"
    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "renew_directory_id", _dies)
        with pytest.raises(KeyboardInterrupt):
            machine.start()
    again = machine.start()
    assert again.directory_id != first.directory_id
    assert again.former_directories == (first.directory_id,)


def _dies(*_: object) -> None:
    raise KeyboardInterrupt
