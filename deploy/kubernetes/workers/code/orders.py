"""What `kohort queue run` does with each record of the queue `orders`."""

from kohort.client import ConsumerRecord


def handle(record: ConsumerRecord[bytes, bytes]) -> None:
    """Work on one record: an exception has it come again, a return has it done."""
    print(record.partition, record.offset, record.value, flush=True)
