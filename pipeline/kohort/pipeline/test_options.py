"""The names under which an option may be given."""

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.errors import OptionError
from kohort.pipeline.options import ReadOptions, read_options, write_options
from kohort.pipeline.ranges import task_ranges
from kohort.pipeline.rows import table_schema


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap",
        "bootstrap_servers",
        "bootstrap.servers",
        "bootstrapServers",
        "kafka.bootstrap.servers",
        "Bootstrap",
    ],
)
def test_brokers_are_named_as_other_sources_and_clients_name_them(name: str) -> None:
    assert read_options({name: "here:9092", "topics": "t"}).servers.bootstrap == "here:9092"


def test_two_names_that_differ_are_an_error() -> None:
    given = {"bootstrap": "here:9092", "kafka.bootstrap.servers": "there:9092", "topics": "t"}
    with pytest.raises(OptionError, match=r"bootstrap and kafka\.bootstrap\.servers differ"):
        read_options(given)
    assert read_options(given | {"bootstrap": "there:9092"}).servers.bootstrap == "there:9092"


def test_a_table_without_options_names_the_view_that_has_them() -> None:
    with pytest.raises(OptionError, match="use CREATE TEMPORARY VIEW"):
        read_options({})
    with pytest.raises(OptionError, match=r"give HOST:PORT of a broker$"):
        read_options({"topics": "t"})


SPARK = {"kafka.bootstrap.servers": "here:9092", "subscribe": "t"}


def spark_options(*, is_stream: bool = False, **more: str) -> ReadOptions:
    """Return the options of a job of Spark's Kafka source; underscores in names stand for dots."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    return read_options(SPARK | given, is_stream=is_stream)


def test_options_of_sparks_kafka_source_have_its_names_and_defaults() -> None:
    found = spark_options(
        startingOffsets='{"t": {"0": 3}}',
        failOnDataLoss="false",
        maxOffsetsPerTrigger="90",
        minPartitions="8",
        kafka_security_protocol="PLAINTEXT",
        kafka_group_id="ignored",
    )
    assert found.topics.names == ("t",)
    assert found.starting.offsets == {TopicPartition("t", 0): 3}
    assert (found.fail_on_data_loss, found.max_rows_per_trigger, found.tasks_min) == (False, 90, 8)
    assert (found.read_committed, found.include_timestamp_type) == (False, True)
    assert found.servers.settings == {"security_protocol": "PLAINTEXT"}
    assert spark_options(kafka_isolation_level="read_committed").read_committed
    assert "timestampType" in table_schema(SPARK).names
    ours = {"bootstrap": "here:9092", "topics": "t"}
    assert read_options(ours).read_committed
    assert "timestampType" not in table_schema(ours).names


def test_a_time_goes_before_times_of_partitions_and_these_before_offsets() -> None:
    times, offsets = '{"t": {"0": 7}}', "earliest"
    found = spark_options(
        startingTimestamp="5",
        startingOffsetsByTimestamp=times,
        startingOffsets=offsets,
        endingOffsets="latest",
    )
    assert (found.starting.timestamp_ms, found.starting.needs_record) == (5, True)
    found = spark_options(startingOffsets=offsets, startingOffsetsByTimestamp=times)
    assert found.starting.timestamps_ms == {TopicPartition("t", 0): 7}
    found = spark_options(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest")
    assert not found.starting.needs_record


@pytest.mark.parametrize(
    ("delay", "milliseconds"), [("15m", 900_000), ("30s", 30_000), ("250", 250), ("2h", 7_200_000), ("0s", 0)]
)
def test_max_trigger_delay_is_a_duration(delay: str, milliseconds: int) -> None:
    found = spark_options(minOffsetsPerTrigger="10", maxTriggerDelay=delay)
    assert (found.min_rows_per_trigger, found.trigger_delay_max_ms) == (10, milliseconds)
    assert spark_options(minOffsetsPerTrigger="10").trigger_delay_max_ms == 900_000
    assert spark_options(maxTriggerDelay=delay).min_rows_per_trigger is None, "without effect, as in Spark"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"assign": '{"t": [0]}'}, "give partitions alone"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, "is no duration"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "more than max_rows_per_trigger"),
        ({"topics": "u"}, "differ: give one of them"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets says where to begin"),
        ({"kafka.value.deserializer": "x"}, "cast them"),
        ({"kafka.no.such.setting": "x"}, "unknown option 'kafka.no.such.setting'"),
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'"),
    ],
)
def test_wrong_options_are_refused_by_a_word(more: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_options(SPARK | more)


@pytest.mark.parametrize("given", ["[]", "{}", '{"t": []}', '{"t": 0}', "t", '{"t": ["x"]}'])
def test_assign_takes_partitions_by_topic(given: str) -> None:
    brokers = {"kafka.bootstrap.servers": "here:9092"}
    with pytest.raises(OptionError, match="are no partitions"):
        read_options(brokers | {"assign": given})
    found = read_options(brokers | {"assign": '{"t": [0, 2], "u": [1]}'}).topics
    assert (found.names, sorted(map(str, found.partitions or ()))) == (("t", "u"), ["t-0", "t-2", "u-1"])


def test_options_of_sparks_kafka_sink_have_its_names() -> None:
    given = {"kafka.bootstrap.servers": "here:9092", "topic": "t", "includeHeaders": "true"}
    found = write_options(
        given | {"kafka.compression.type": "zstd", "kafka.acks": "-1", "kafka.linger.ms": "5"}
    )
    assert (found.topic, found.compression) == ("t", "zstd")
    with pytest.raises(OptionError, match="always written with acks=all"):
        write_options(given | {"kafka.acks": "1"})


def test_ranges_are_divided_among_at_least_so_many_tasks() -> None:
    large, small = TopicPartition("t", 0), TopicPartition("t", 1)
    ranges = [(large, 0, 900), (small, 50, 150), (TopicPartition("t", 2), 7, 7)]

    def sizes(**more: str) -> list[tuple[int, int]]:
        return [
            (each.partition, each.end - each.start)
            for each in task_ranges(ranges, read_options(SPARK | more))
        ]

    assert sizes() == [(0, 900), (1, 100)]
    assert sizes(minPartitions="2") == [(0, 900), (1, 100)]
    assert sizes(minPartitions="10") == [(0, 100)] * 9 + [(1, 100)]
    assert sizes(maxRecordsPerPartition="300") == [(0, 300)] * 3 + [(1, 100)]
    assert sizes(maxRecordsPerPartition="300", minPartitions="20") == [(0, 50)] * 18 + [(1, 50)] * 2
