"""Error codes and the errors that carry them. That the table is Kafka's is shown in tests/interop."""

from kohort.protocol.errors import ApiError, ErrorCode, WireError


def test_the_codes_follow_each_other_without_a_gap() -> None:
    assert [each.value for each in ErrorCode] == list(range(-1, 137))


def test_transient_errors_are_retriable_and_permanent_ones_are_not() -> None:
    passing = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NETWORK_EXCEPTION)
    lasting = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    assert all(each.retriable for each in passing)
    assert not any(each.retriable for each in lasting)


def test_an_api_error_has_its_code_and_message() -> None:
    plain, told = ApiError(ErrorCode.ILLEGAL_GENERATION), ApiError(ErrorCode.INVALID_CONFIG, "no such name")
    assert (plain.code, plain.message, str(plain)) == (22, None, "ILLEGAL_GENERATION")
    assert (told.code, told.message, str(told)) == (40, "no such name", "INVALID_CONFIG: no such name")


def test_a_wire_error_is_a_value_error() -> None:
    assert issubclass(WireError, ValueError)
