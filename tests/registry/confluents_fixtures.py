"""A plugin with which the schema registry tests in confluent-kafka's repository run against any registry.

In a checkout of that repository, with KOHORT as a checkout of this one:

    BROKERS=127.0.0.1:9092 SR_URL=http://127.0.0.1:8081 PYTHONPATH=.:KOHORT/tests/registry \
        python -m pytest -p confluents_fixtures -o asyncio_mode=auto -k "not 7_0_1" \
        tests/integration/schema_registry

Their fixtures name trivup, which would start Kafka, and have no client for asyncio where brokers are given.
The test that is left out expects an answer of Confluent's registry 7.0.1.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

NAMES = ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster")

for name in NAMES:
    sys.modules[name] = ModuleType(name)
sys.modules[NAMES[-1]].__dict__["KafkaCluster"] = object


def pytest_collection_finish() -> None:
    """Give their fixture the client that it lacks."""
    client = import_module("confluent_kafka.schema_registry").AsyncSchemaRegistryClient
    fixture = import_module("tests.integration.cluster_fixture").ByoFixture

    def async_schema_registry(self: Any, conf: Any = None) -> Any:
        del conf
        return client({"url": self._sr_url})

    fixture.async_schema_registry = async_schema_registry
