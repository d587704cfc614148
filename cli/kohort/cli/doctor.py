"""`kohort doctor`: why clients cannot connect."""

from collections.abc import Callable, Iterator

import click

from kohort.cli.diagnosis import Finding, Level
from kohort.cli.diagnosis_broker import look_at_broker
from kohort.cli.diagnosis_http import look_at_http
from kohort.cli.diagnosis_machine import look_at_machine
from kohort.cli.http_source import http_option
from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import Coloured, print_json, print_parts

WORDS = {
    Level.OK: Coloured("ok  ", "green"),
    Level.WARN: Coloured("warn", "yellow"),
    Level.FAIL: Coloured("FAIL", "red"),
}
PROBLEM = 1


@click.command()
@http_option("Where the broker serves HTTP.  [default: port 9644 of the first broker]", None)
@click.option("--data", default="kohort-data", show_default=True, help="The data folder, where it is here.")
@json_option
@bootstrap_option
def doctor(*, servers: str, http: str | None, data: str, as_json: bool) -> None:
    """Diagnose why clients cannot connect, or soon will not: run it where the clients are.

    It looks whether the brokers answer, whether the addresses that they have clients connect to can be
    reached from here, at partitions without a leader, at the broker's health, disk, descriptors and clock,
    and at this machine's own. The exit code is 1 where something fails.
    """
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: look_at_broker(servers),
        lambda: look_at_http(servers, http),
        lambda: look_at_machine(data),
    )
    findings: list[Finding] = []
    for look in looks:
        for finding in look():
            findings.append(finding)
            if not as_json:
                _print(finding)
    if as_json:
        print_json([each.as_json() for each in findings])
    if any(each.level is Level.FAIL for each in findings):
        raise click.exceptions.Exit(PROBLEM)


def _print(finding: Finding) -> None:
    print_parts(WORDS[finding.level], f"  {finding.subject}: {finding.text}")
    if finding.advice:
        print_parts(f"      {finding.advice}")
