"""The page of numbers: names that are a promise, the text form of Prometheus, and no label that could tell a secret."""

from concurrent.futures import ThreadPoolExecutor

from everlog.surfaces.proxy.metrics import FAMILIES, SECONDS, Metrics

NAMES = """
everlog_info version
everlog_requests_total route protocol status
everlog_request_seconds route
everlog_received_bytes_total route
everlog_sent_bytes_total route
everlog_requests_in_flight
everlog_upstream_failures_total kind
everlog_clients_left_total
everlog_exchanges_total decision
everlog_degraded_total place
everlog_held_too_long_total
everlog_recording
everlog_memory_requests_total mode
everlog_memory_outcomes_total outcome
everlog_hidden_rounds_total
everlog_prefixes_total by
everlog_prefix_lost_bytes_total by
everlog_tokens_total kind
everlog_cost_usd_total
everlog_unpriced_total
"""


def test_the_names_are_a_promise():
    assert [" ".join((one.name, *one.labels)) for one in FAMILIES] == NAMES.split("\n")[1:-1]


def test_the_page_has_each_family_once_and_its_samples_below_it():
    metrics = Metrics()
    metrics.add("everlog_requests_total", "/v1/messages", "anthropic", "2xx")
    metrics.add("everlog_requests_total", "/v1/messages", "anthropic", "2xx", by=2)
    page = metrics.page([("everlog_recording", (), 7)]).decode()
    assert page.endswith("\n")
    assert '\neverlog_requests_total{route="/v1/messages",protocol="anthropic",status="2xx"} 3\n' in page
    assert "# TYPE everlog_recording gauge\neverlog_recording 7\n" in page
    assert page.count("# TYPE ") == len(FAMILIES)


def test_a_histogram_counts_up_to_all_of_them():
    metrics = Metrics()
    for seconds in (0.005, 0.3, 1000):
        metrics.observe("everlog_request_seconds", seconds, "/")
    lines = [line for line in metrics.page().decode().splitlines() if line.startswith("everlog_request_seconds_")]
    assert lines[0] == 'everlog_request_seconds_bucket{route="/",le="0.005"} 1'
    assert [line.rpartition(" ")[2] for line in lines[: len(SECONDS) + 1]] == ["1"] * 4 + ["2"] * 8 + ["3"]
    assert lines[-2:] == [
        'everlog_request_seconds_sum{route="/"} 1000.305',
        'everlog_request_seconds_count{route="/"} 3',
    ]


def test_labels_are_escaped():
    metrics = Metrics()
    metrics.add("everlog_info", 'a"b\\c\nd')
    assert b'everlog_info{version="a\\"b\\\\c\\nd"} 1\n' in metrics.page()


def test_threads_lose_no_count():
    metrics = Metrics()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: metrics.add("everlog_clients_left_total"), range(4000)))
    assert b"everlog_clients_left_total 4000\n" in metrics.page()
