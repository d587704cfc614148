"""Coordinators and services that most brokers never need: made when a request first asks for them."""

from typing import TYPE_CHECKING

from kohort.broker.composition.ensured_topics import EnsuredTopics
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.metadata import TRANSACTIONS_TOPIC, Snapshot
from kohort.broker.metadata.topics import Topics

if TYPE_CHECKING:
    from kohort.broker.coordination.internal_topics import InternalTopics
    from kohort.broker.coordination.share_partitions import SharePartitions
    from kohort.broker.coordination.shares import Shares
    from kohort.broker.coordination.transaction_shards import TransactionShards
    from kohort.broker.handlers.data.family import Data
    from kohort.broker.handlers.data.transactional import Permissions
    from kohort.broker.handlers.groups.family import GroupServices
    from kohort.broker.handlers.share.family import ShareServices
    from kohort.broker.handlers.transactions.family import TransactionServices


class OnDemand:
    """Makes each of them once. The loop's thread only."""

    def __init__(
        self,
        services: CoordinatorServices,
        ensured: EnsuredTopics,
        topics: Topics,
        groups: GroupShards,
        *,
        counters: GroupCounters,
    ) -> None:
        self._services = services
        self._ensured = ensured
        self._topics = topics
        self._groups = groups
        self._counters = counters
        self._transactions: TransactionShards | None = None
        self._shares: Shares | None = None
        self._permissions: Permissions | None = None

    def transactions(self) -> "TransactionShards":
        """Return the shards of transactions."""
        if self._transactions is None:
            from kohort.broker.coordination.transactions import transaction_shards  # noqa: PLC0415

            self._transactions = transaction_shards(
                self._services, self._groups, ensure_topic=self._ensured.transactions
            )
        return self._transactions

    def shares(self) -> "Shares":
        """Return what share groups take."""
        if self._shares is None:
            from kohort.broker.coordination.shares import make_shares  # noqa: PLC0415

            self._shares = make_shares(
                self._services,
                self._groups,
                ensure_topic=self._ensured.share_state,
                ensure=self._topics.ensure,
                counters=self._counters,
            )
        return self._shares

    def share_partitions(self) -> "SharePartitions | None":
        """Return the share partitions, None until the first use."""
        return None if self._shares is None else self._shares.partitions

    def share_services(self, groups: "GroupServices", data: "Data") -> "ShareServices":
        """Return what answers requests of share groups."""
        from kohort.broker.handlers.share.family import ShareServices  # noqa: PLC0415

        return ShareServices(groups, data, self.shares, self._services.current)

    def permissions(self, transactions: "TransactionServices") -> "Permissions":
        """Return the permissions of transactional producers to write to partitions."""
        if self._permissions is None:
            from kohort.broker.handlers.data.transactional import Permissions  # noqa: PLC0415

            self._permissions = Permissions(transactions)
        return self._permissions

    def streams_topics(self) -> "InternalTopics":
        """Return what creates the internal topics of streams groups."""
        from kohort.broker.coordination.internal_topics import InternalTopics  # noqa: PLC0415

        return InternalTopics(self._topics, self._groups, self._services.workers, self._services.clock)

    def refresh(self) -> None:
        """Load, and drop, shards as partitions of their topics get other leaders."""
        self.refresh_transactions()
        if self._shares is not None:
            self._shares.partitions.refresh()

    def refresh_transactions(self) -> None:
        """Take up, and drop, transactional ids as their partitions get other leaders.

        Prepared transactions are completed, and open ones may time out, without a client's request.
        """
        if TRANSACTIONS_TOPIC in self._services.metadata.snapshot().topics:
            self.transactions().refresh()

    def follow_metadata(self, before: Snapshot, after: Snapshot) -> None:
        """Take up transactional ids if the topic of transactions has changed."""
        if before.topics.get(TRANSACTIONS_TOPIC) is not after.topics.get(TRANSACTIONS_TOPIC):
            self.refresh_transactions()

    def close(self) -> None:
        """Close the coordinators that were made."""
        if self._transactions is not None:
            self._transactions.close()
        if self._shares is not None:
            self._shares.close()
