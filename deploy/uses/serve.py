"""A broker by the installed command, and its clients: records in and out, a group explained, a stop."""

import signal
import subprocess
import sys
from pathlib import Path

from kohort.client import Admin, Consumer, NewTopic, Producer

RECORDS = 1_000
KOHORT = Path(sys.executable).parent / "kohort"
ANY = "127.0.0.1:0"


def main() -> None:
    print(subprocess.run([KOHORT, "version"], check=True, capture_output=True, text=True).stdout)
    command = [KOHORT, "serve", "--listen", ANY, "--http", ANY, "--data", "data"]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            ready = dict(word.split("=", 1) for word in broker.stdout.readline().split() if "=" in word)
            use(ready["kafka"], ready["http"])
        finally:
            broker.send_signal(signal.SIGTERM)
    assert broker.returncode == 0, broker.returncode


def use(bootstrap: str, http: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("orders", partitions=3))
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        for number in range(RECORDS):
            producer.send("orders", str(number).encode(), key=str(number % 7).encode())
    found: set[bytes | None] = set()
    options = {"bootstrap_servers": bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
    with Consumer("orders", **options) as consumer:
        while len(found) < RECORDS:
            found |= {each.value for each in consumer.poll(timeout_ms=60_000)}
        consumer.commit()
    asked = ["--bootstrap-server", bootstrap, "--http", http]
    for words in (["groups", "describe", "billing", "--lag"], ["groups", "explain", "billing"], ["doctor"]):
        subprocess.run([KOHORT, *words, *asked], check=True)


if __name__ == "__main__":
    main()
