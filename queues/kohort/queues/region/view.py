"""What a region's log says, read in its order: pure, the same for all who have read as far."""

from kohort.queues.region.entries import Asked, Claim, Command, Entry, RegionState, Report


class RegionView:
    """The state by the coordinator that rules, each member's newest report, and the newest command."""

    def __init__(self) -> None:
        self.state: RegionState | None = None
        self.epoch = -1
        self.reports: dict[str, Report] = {}
        self.command: Command | None = None

    def take(self, offset: int, entry: Entry) -> None:
        """Take in the next entry of the log."""
        match entry:
            case Claim():
                self.epoch = max(self.epoch, offset)
            case RegionState():
                self._take_state(entry)
            case Report():
                self._take_report(entry)
            case Command():
                if self.command is None or entry.number >= self.command.number:
                    self.command = entry

    def _take_state(self, state: RegionState) -> None:
        """Go by it, unless somebody has taken over from whoever wrote it."""
        if state.epoch >= self.epoch:
            self.epoch = state.epoch
            self.state = state

    def _take_report(self, report: Report) -> None:
        """Keep that of the newest process of a name; of two with one number whose report came first."""
        known = self.reports.get(report.name)
        if known is None or known.token == report.token or known.number < report.number:
            self.reports[report.name] = report


def next_command(view: RegionView, asked: Asked) -> Command:
    """Return a wish that is newer than all that were read; two that have the same number are one."""
    return Command(1 if view.command is None else view.command.number + 1, asked)
