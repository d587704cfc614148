"""What one connection asks of transactions acts in the order in which it was asked."""

from pathlib import Path

import trio

from kohort.broker.coordination.test_shard import Client, running
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

INIT_VERSION = 5
TOGETHER = 8
ROUNDS = 20


async def test_ids_requested_together_have_growing_epochs(tmp_path: Path) -> None:
    """Each takes a task, and tasks run in any order: a producer would believe it had the newest epoch."""
    async with running(tmp_path, ("transaction.state.log.num.partitions", "1")) as broker:
        client = await Client.to(broker)
        init = InitProducerIdRequest(transactional_id="a", transaction_timeout_ms=60_000)
        with trio.fail_after(30):
            while True:
                answer = await client.ask(init, InitProducerIdResponse, INIT_VERSION)
                if not answer.error_code:
                    break
        epochs = [answer.producer_epoch]
        for _ in range(ROUNDS):
            frames = [client.frame(init, INIT_VERSION) for _ in range(TOGETHER)]
            await client.send(*(frame for frame, _, _ in frames))
            for _, version, header_bytes in frames:
                with trio.fail_after(30):
                    frame = await client.receive()
                assert frame is not None
                answer = InitProducerIdResponse.decode(frame[header_bytes:], version)
                assert answer.error_code == ErrorCode.NONE
                epochs.append(answer.producer_epoch)
        assert epochs == list(range(epochs[0], epochs[0] + 1 + ROUNDS * TOGETHER))
