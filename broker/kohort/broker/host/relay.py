"""Questions from one worker to another: they go by the supervisor, to whom each has a channel."""

from itertools import count

from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel


class Relay:
    """The supervisor's part: hands each question on, and its answer back."""

    def __init__(self) -> None:
        self._channels: dict[int, Channel] = {}
        self._numbers = count(1)
        self._asked: dict[int, tuple[int, int, int]] = {}  # By number: who was asked, who asks, as which.

    def connected(self, worker: int, channel: Channel) -> None:
        """Know how a worker is reached."""
        self._channels[worker] = channel

    def disconnected(self, worker: int) -> None:
        """Forget a worker; what it was asked has no answer."""
        self._channels.pop(worker, None)
        for number, (asked, _, _) in tuple(self._asked.items()):
            if asked == worker:
                self._tell(number, None)

    def hear(self, worker: int, message: Json) -> None:
        """Hand on what a worker asks, or what it answers."""
        if "ask" in message:
            number = next(self._numbers)
            self._asked[number] = message["of"], worker, message["ask"]
            channel = self._channels.get(message["of"])
            if channel is None:
                self._tell(number, None)
            else:
                channel.send({"asked": number, "question": message["question"]})
        elif message.get("told") in self._asked:
            self._tell(message["told"], message["answer"])

    def _tell(self, number: int, answer: Json | None) -> None:
        _, requester, as_which = self._asked.pop(number)
        channel = self._channels.get(requester)
        if channel is not None:
            channel.send({"to": as_which, "answer": answer})
