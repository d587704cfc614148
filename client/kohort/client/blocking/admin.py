"""The blocking admin client."""

from typing import Never, Unpack

from kohort.client import admin
from kohort.client.blocking.client import BlockingClient, blocking
from kohort.client.blocking.cluster_connection import ClusterConnection, connection_of
from kohort.client.config import AdminOptions


class Admin(BlockingClient[admin.Admin]):
    """Describes and changes what a cluster holds: topics, settings, groups, offsets.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics(NewTopic("flights", partitions=8))

    A call raises BrokerError with Kafka's code where a broker refuses it. A call about several things raises
    ItemsError, which has the error of each and the results of those that succeeded. Retriable errors are
    retried within default_api_timeout_ms.
    """

    def __init__(
        self, *unnamed: Never, cluster: ClusterConnection | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        client = admin.Admin(*unnamed, cluster=connection_of(cluster), **options)
        super().__init__(client, "kohort-admin", cluster)

    def close(self) -> None:
        """Close the connections."""
        self._close()

    describe_cluster = blocking(admin.Admin.describe_cluster)
    list_topics = blocking(admin.Admin.list_topics)
    describe_topics = blocking(admin.Admin.describe_topics)
    describe_topic_partitions = blocking(admin.Admin.describe_topic_partitions)
    create_topics = blocking(admin.Admin.create_topics)
    delete_topics = blocking(admin.Admin.delete_topics)
    create_partitions = blocking(admin.Admin.create_partitions)
    delete_records = blocking(admin.Admin.delete_records)
    list_offsets = blocking(admin.Admin.list_offsets)

    describe_configs = blocking(admin.Admin.describe_configs)
    alter_configs = blocking(admin.Admin.alter_configs)

    list_acls = blocking(admin.Admin.list_acls)
    create_acls = blocking(admin.Admin.create_acls)
    delete_acls = blocking(admin.Admin.delete_acls)
    describe_quotas = blocking(admin.Admin.describe_quotas)
    alter_quotas = blocking(admin.Admin.alter_quotas)
    describe_users = blocking(admin.Admin.describe_users)
    set_user_password = blocking(admin.Admin.set_user_password)
    delete_user = blocking(admin.Admin.delete_user)

    list_groups = blocking(admin.Admin.list_groups)
    describe_groups = blocking(admin.Admin.describe_groups)
    delete_groups = blocking(admin.Admin.delete_groups)
    remove_group_members = blocking(admin.Admin.remove_group_members)
    list_group_offsets = blocking(admin.Admin.list_group_offsets)
    list_offsets_of_groups = blocking(admin.Admin.list_offsets_of_groups)
    alter_group_offsets = blocking(admin.Admin.alter_group_offsets)
    delete_group_offsets = blocking(admin.Admin.delete_group_offsets)
    list_share_group_offsets = blocking(admin.Admin.list_share_group_offsets)
    alter_share_group_offsets = blocking(admin.Admin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(admin.Admin.delete_share_group_offsets)

    open_transactions = blocking(admin.Admin.open_transactions)

    describe_log_dirs = blocking(admin.Admin.describe_log_dirs)
    elect_leaders = blocking(admin.Admin.elect_leaders)
    alter_partition_reassignments = blocking(admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(admin.Admin.list_partition_reassignments)
    unregister_broker = blocking(admin.Admin.unregister_broker)
    describe_features = blocking(admin.Admin.describe_features)
    update_features = blocking(admin.Admin.update_features)
