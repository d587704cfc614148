"""Spark reads a topic, and so it does when `kafka` alone becomes `kohort` in a job of its own source's."""

from kohort.client import Producer
from kohort.pipeline.session import local_session
from kohort.testing import Broker

RECORDS = 500


def main() -> None:
    with Broker(topics={"flights": 2}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("flights", str(number).encode())
        session = local_session()
        reader = session.read.format("kohort")
        for name, value in {"bootstrap": broker.bootstrap, "topics": "flights"}.items():
            reader = reader.option(name, value)
        assert reader.load().count() == RECORDS
        moved = session.read.format("kohort").option("kafka.bootstrap.servers", broker.bootstrap)
        assert moved.option("subscribe", "flights").load().count() == RECORDS
        session.stop()


if __name__ == "__main__":
    main()
