"""The state of each partition on this broker: its log, its high watermark, and its waiting readers."""

from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.produced import Appended
from kohort.broker.partitions.producer_ids import ProducerIds
from kohort.broker.partitions.table import PartitionTable

__all__ = ["Appended", "Partition", "PartitionTable", "ProducerIds"]
