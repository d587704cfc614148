from kohort.client.request_parts import PARTITIONS_PER_REQUEST, parts_of, parts_of_mapping


def test_a_small_request_is_one_part() -> None:
    assert list(parts_of(range(3))) == [(0, 1, 2)]
    assert list(parts_of(())) == []
    assert list(parts_of_mapping({})) == [{}]


def test_a_large_request_is_split_into_complete_ordered_parts() -> None:
    many = range(2 * PARTITIONS_PER_REQUEST + 1)
    parts = list(parts_of(many))
    assert [len(each) for each in parts] == [PARTITIONS_PER_REQUEST, PARTITIONS_PER_REQUEST, 1]
    assert [each for part in parts for each in part] == list(many)
    mapped = list(parts_of_mapping({each: -each for each in many}))
    assert [len(each) for each in mapped] == [len(each) for each in parts]
    assert {key: value for part in mapped for key, value in part.items()} == {each: -each for each in many}
