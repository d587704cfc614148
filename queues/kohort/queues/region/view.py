"""What a region's log says, read in its order: pure, the same for all who have read as far."""

from msgspec.structs import replace

from kohort.queues.region.entries import Asked, Claim, Command, Entry, RegionState, Report


class RegionView:
    """The state by the coordinator that rules, each name's newest report, and the newest commands."""

    def __init__(self) -> None:
        self.state: RegionState | None = None
        self.epoch = -1
        self.claimed_by = ""  # The token of the claim at `epoch`.
        self.reports: dict[str, Report] = {}
        self._rivals: dict[str, dict[str, Report]] = {}  # By name and token, those of the highest number.
        self.commands: dict[Asked, Command] = {}

    def take(self, offset: int, entry: Entry) -> None:
        """Take in the next entry of the log."""
        match entry:
            case Claim():
                self.epoch, self.claimed_by = offset, entry.token
            case RegionState():
                self._take_state(entry)
            case Report():
                self._take_report(entry)
            case Command():
                self._take_command(entry)

    def _take_state(self, state: RegionState) -> None:
        """Go by it, unless somebody has taken over from whoever wrote it."""
        if state.epoch >= self.epoch:
            self.epoch = state.epoch
            self.state = state
            for name, rivals in self._rivals.items():
                if len(rivals) > 1:
                    self._choose(name, rivals)

    def _take_report(self, report: Report) -> None:
        """Keep that of the newest process of a name."""
        rivals = self._rivals.get(report.name, {})
        newest = max((each.number for each in rivals.values()), default=0)
        if report.number < newest:
            return
        if report.number > newest:
            self._rivals.pop(report.name, None)  # So that it comes last.
            rivals = self._rivals[report.name] = {}
        rivals[report.token] = report
        self._choose(report.name, rivals)

    def _choose(self, name: str, rivals: dict[str, Report]) -> None:
        """Of two processes that have one number go by the member, or by the first one where neither is it.

        Compaction changes the order of their reports.
        """
        member = self.state.members.get(name) if self.state else None
        first = next(iter(rivals.values()))
        self.reports[name] = rivals.get(member.token, first) if member else first

    @property
    def everybody(self) -> list[Report]:
        """The reports of all processes that are the newest of their names, in the order of their arrival."""
        return [each for rivals in self._rivals.values() for each in rivals.values()]

    def _take_command(self, command: Command) -> None:
        """Keep the newest of each kind; two of a kind that have the same number are one.

        Two of different kinds may have been written at the same time: the later one is the newer one.
        """
        known = self.commands.get(command.asked)
        if known is not None and (known.number, known.without) == (command.number, command.without):
            return
        newest = self.newest_command
        self.commands[command.asked] = (
            replace(command, number=newest + 1) if command.number <= newest else command
        )

    @property
    def newest_command(self) -> int:
        """The highest number of a command, also of one that compaction has taken since it was obeyed."""
        obeyed = 0 if self.state is None else self.state.command
        return max([obeyed, *(each.number for each in self.commands.values())])


def next_command(view: RegionView, asked: Asked, without: str = "") -> Command:
    """Return a wish that is newer than all that were read."""
    return Command(view.newest_command + 1, asked, without)
