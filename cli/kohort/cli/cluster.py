"""`kohort cluster`."""

import click

from kohort.cli.options import bootstrap_option, json_option, open_admin
from kohort.cli.output import print_json, print_line


@click.group()
def cluster() -> None:
    """Tell of the cluster and its brokers."""


@cluster.command()
@json_option
@bootstrap_option
def describe(as_json: bool, servers: str) -> None:
    """Print the cluster's id and its brokers, with the address that each has clients connect to."""
    with open_admin(servers) as admin:
        found = admin.describe_cluster()
    if as_json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller_id": found.controller_id,
                "brokers": [
                    {"id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
                    for each in found.nodes
                ],
            }
        )
        return
    print_line(f"Cluster ID: {found.cluster_id}")
    print_line(f"{'BROKER':<8} {'ADDRESS':<30} {'RACK':<15} CONTROLLER")
    for each in found.nodes:
        controller = "yes" if each.node_id == found.controller_id else "-"
        print_line(f"{each.node_id:<8} {each.address:<30} {each.rack or '-':<15} {controller}")
