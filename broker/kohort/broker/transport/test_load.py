from kohort.broker.transport.load import LIGHT_REQUESTS_MIN, TURNS_PER_LOOK, Load


def test_a_connection_is_not_light_before_it_has_shown_so() -> None:
    load = Load()
    assert not load.is_light
    for _ in range(LIGHT_REQUESTS_MIN):
        assert load.turns_left == 1
        load.note(1, 0)
    assert load.is_light


def test_a_connection_that_asks_for_much_is_no_longer_light() -> None:
    load = Load()
    load.note(100, 10)
    assert load.is_light
    load.note(1, 500)
    assert not load.is_light


def test_old_work_counts_less_over_time() -> None:
    load = Load()
    load.note(1, 1_000)
    for _ in range(20):
        load.note(100, 0)
    assert load.is_light


def test_a_light_client_is_timed_now_and_then() -> None:
    load = Load()
    load.note(10, 0)
    assert load.turns_left == TURNS_PER_LOOK
    load.note(1, 500)
    assert load.turns_left == 1
