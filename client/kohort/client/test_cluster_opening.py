"""Who is cancelled while it opens a cluster waits for nothing. No broker is there."""

import asyncio

import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import admin_config


@pytest.mark.parametrize("steps", range(8))
def test_a_native_cancellation_at_any_step_of_the_opening_ends_it(steps: int) -> None:
    async def main() -> None:
        async def open_and_close() -> None:
            async with Cluster(admin_config({"bootstrap_servers": "127.0.0.1:1"})):
                await asyncio.sleep(60)

        before = len(asyncio.all_tasks())
        opening = asyncio.create_task(open_and_close())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        done, _ = await asyncio.wait([opening], timeout=5)
        assert done
        assert opening.cancelled()
        assert len(asyncio.all_tasks()) == before, "nothing is left"

    asyncio.run(main())
