from kohort.client.assignors.java_order import hash_order, java_string_order, partition_hash, string_hash


def test_strings_hash_as_in_java() -> None:
    assert string_hash("") == 0
    assert string_hash("consumer") == -567_770_122 & 0xFFFF_FFFF
    assert string_hash("𝄞") == 31 * 0xD834 + 0xDD1E, "two UTF-16 units"


def test_partitions_hash_as_in_java() -> None:
    assert partition_hash(("T", 2)) == 31 * (31 + 2) + ord("T")


def test_a_table_of_sixteen_is_walked_by_the_low_bits() -> None:
    assert hash_order(["p", "a", "o"], string_hash) == ["p", "a", "o"], "112, 97 and 111 fall to 0, 1 and 15"
    assert hash_order(["o", "a", "p"], string_hash) == ["p", "a", "o"]


def test_items_of_one_bucket_keep_their_insertion_order() -> None:
    assert hash_order(["q", "a"], string_hash) == ["q", "a"]
    assert hash_order(["a", "q"], string_hash) == ["a", "q"]


def test_a_table_never_shrinks() -> None:
    assert hash_order(["q", "a"], string_hash, most=13) == ["a", "q"], "97 and 113 part in a table of 32"


def test_java_sorts_by_units() -> None:
    assert sorted(["\uffff", "𝄞"], key=java_string_order) == ["𝄞", "\uffff"]
    assert sorted(["\uffff", "𝄞"]) == ["\uffff", "𝄞"]
