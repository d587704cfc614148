"""A producer's id and epoch."""

from typing import cast

from kohort.client.batch import NOBODY, ProducerIdentity
from kohort.client.cluster import Cluster
from kohort.client.identity import Identifier
from kohort.client.sequences import EPOCH_MAX


def test_after_the_last_epoch_one_new_id_is_requested_for_all_partitions() -> None:
    identifier = Identifier(cast(Cluster, None), is_idempotent=True, on_change=lambda: None)
    identifier.identity = ProducerIdentity(9, EPOCH_MAX - 1)
    assert identifier.raise_epoch() == ProducerIdentity(9, EPOCH_MAX)
    assert identifier.raise_epoch() == NOBODY
    assert identifier.raise_epoch() == NOBODY, "no epoch 0 of producer -1"
