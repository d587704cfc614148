"""The asynchronous admin client, under trio and asyncio."""

from collections.abc import Iterable, Mapping
from typing import Never, Unpack

from kohort.client.admin_acls import AclAdmin
from kohort.client.admin_cluster import ClusterAdmin
from kohort.client.admin_configs import ConfigAdmin
from kohort.client.admin_groups import GroupAdmin
from kohort.client.admin_quotas import QuotaAdmin
from kohort.client.admin_topics import TopicAdmin
from kohort.client.admin_users import UserAdmin
from kohort.client.admin_values import OpenTransaction, ShareGroupOffset
from kohort.client.arguments import by_name_alone, one_by_one
from kohort.client.async_client import AsyncClient
from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster_connection import ClusterConnection, hub_of, options_with
from kohort.client.config import AdminOptions, admin_config, describe_servers
from kohort.client.session import Session
from kohort.client.values import TopicPartition


class Admin(
    AsyncClient[Session],
    TopicAdmin,
    ConfigAdmin,
    AclAdmin,
    QuotaAdmin,
    UserAdmin,
    GroupAdmin,
    ClusterAdmin,
):
    """Describes and changes what a cluster holds: topics, settings, groups, offsets.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics(NewTopic("flights", partitions=8))

    A call raises BrokerError with Kafka's code where a broker refuses it. A call about several things raises
    ItemsError, which has the error of each and the results of those that succeeded. Retriable errors are
    retried within default_api_timeout_ms.
    """

    def __init__(
        self, *unnamed: Never, cluster: ClusterConnection | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        by_name_alone(unnamed, "Admin(bootstrap_servers=...)")
        config = admin_config(options_with(cluster, options))
        super().__init__(Session(config, hub_of(cluster)), cluster)
        self._cluster = self._session.cluster
        RequestMetrics(self._session.metrics, "admin-client-metrics", self._cluster)

    def __repr__(self) -> str:
        return f"<aio.Admin of {describe_servers(self._cluster.config)}>"

    async def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Return the transactions that are open, or whose markers are not written yet.

        Transactions are left out if the principal may not describe their transactional id.
        """
        from kohort.client.admin_transactions import open_transactions  # noqa: PLC0415  # Few programs ask.

        return await self._cluster.retrying(lambda: open_transactions(self._cluster))

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return the start offsets of a share group, of all partitions or of these. Raises: ItemsError."""
        from kohort.client.admin_share_groups import share_offsets  # noqa: PLC0415  # Few programs ask.

        return await share_offsets(self._cluster, group_id, partitions)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the start offsets of a share group without members. Raises: ItemsError."""
        from kohort.client.admin_share_groups import alter_share_offsets  # noqa: PLC0415

        await alter_share_offsets(self._cluster, group_id, offsets)

    async def delete_share_group_offsets(self, group_id: str, *topics: str) -> None:
        """Delete the offsets of topics from a share group that has no members. Raises: ItemsError."""
        from kohort.client.admin_share_groups import delete_share_offsets  # noqa: PLC0415

        await delete_share_offsets(
            self._cluster, group_id, one_by_one(topics, str, "delete_share_group_offsets")
        )
