"""Questions from one worker to another, forwarded by the supervisor, which has a channel to each."""

from itertools import count

from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel


class Relay:
    """The supervisor's part: hands each question on, and its answer back."""

    def __init__(self) -> None:
        self._channels: dict[int, Channel] = {}
        self._numbers = count(1)
        # By number: the asked worker, the asking one, and its own number.
        self._asked: dict[int, tuple[int, int, int]] = {}

    def connected(self, worker: int, channel: Channel) -> None:
        """Know how a worker is reached."""
        self._channels[worker] = channel

    def disconnected(self, worker: int) -> None:
        """Forget a worker; open questions to it get no answer."""
        self._channels.pop(worker, None)
        for number, (asked, _, _) in tuple(self._asked.items()):
            if asked == worker:
                self._answer(number, None)

    def forward(self, worker: int, message: Json) -> None:
        """Forward a worker's question or answer."""
        if "ask" in message:
            number = next(self._numbers)
            self._asked[number] = message["of"], worker, message["ask"]
            channel = self._channels.get(message["of"])
            if channel is None:
                self._answer(number, None)
            else:
                channel.send({"asked": number, "question": message["question"]})
        elif message.get("told") in self._asked:
            self._answer(message["told"], message["answer"])

    def _answer(self, number: int, answer: Json | None) -> None:
        _, requester, as_which = self._asked.pop(number)
        channel = self._channels.get(requester)
        if channel is not None:
            channel.send({"to": as_which, "answer": answer})
