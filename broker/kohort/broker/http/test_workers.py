"""The metrics of several workers on one page."""

from kohort.broker.http.workers import merged


def test_samples_of_a_metric_stand_together_each_with_its_worker() -> None:
    first = b'# HELP a A.\n# TYPE a gauge\na 1.0\n# HELP b B.\n# TYPE b gauge\nb{of="x"} 2.0\n'
    second = b'# HELP a A.\n# TYPE a gauge\na 3.0\n# HELP b B.\n# TYPE b gauge\nb{of="x"} 4.0\n'
    assert merged({1: first, 2: second}).decode().splitlines() == [
        "# HELP a A.",
        "# TYPE a gauge",
        'a{worker="1"} 1.0',
        'a{worker="2"} 3.0',
        "# HELP b B.",
        "# TYPE b gauge",
        'b{worker="1",of="x"} 2.0',
        'b{worker="2",of="x"} 4.0',
    ]


def test_what_one_worker_alone_has_is_there_and_the_end_stands_once() -> None:
    first = b"# TYPE a gauge\na 1.0\n# EOF\n"
    second = b'# TYPE a gauge\na 2.0\n# TYPE c counter\nc_total{} 1.0 # {trace="t"} 1.0\n# EOF\n'
    assert merged({1: first, 2: second}).decode().splitlines() == [
        "# TYPE a gauge",
        'a{worker="1"} 1.0',
        'a{worker="2"} 2.0',
        "# TYPE c counter",
        'c_total{worker="2"} 1.0 # {trace="t"} 1.0',
        "# EOF",
    ]


def test_the_brace_of_an_exemplar_is_not_that_of_the_labels() -> None:
    page = b'# TYPE c counter\nc_total 1.0 # {trace="t"} 1.0\n# EOF\n'
    assert b'c_total{worker="1"} 1.0 # {trace="t"} 1.0' in merged({1: page})
