"""What is counted, for Prometheus: no label ever holds a user, a name, a key or a text."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from precog.server.exchange import METHODS
from precog.serving import SchedulerCounts

OTHER = "other"
"""Label of paths and methods that there are not, all together: anybody may ask for any of them."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "precog_http_requests", "Requests that were answered.", ["route", "method", "status"], registry=registry
        )
        self._latency = Histogram(
            "precog_http_request_seconds",
            "From a request to the end of its answer.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._refused = Counter("precog_http_refused", "Requests that were told to come later.", registry=registry)
        self._cancelled = Counter("precog_http_cancelled", "Requests whose client went away.", registry=registry)
        self._first_token = Histogram(
            "precog_first_token_seconds",
            "From a question to the first token of its answer.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._saved = Counter(
            "precog_tokens_saved", "Tokens that were not read, because their state was stored.", registry=registry
        )
        self._ingested = Counter("precog_ingest_tokens", "Tokens of what was stored.", registry=registry)
        self._ingest_sec = Counter("precog_ingest_seconds", "Time that storing them took.", registry=registry)
        self._opened = Counter("precog_corpora_opened", "Corpora that were opened to be searched.", registry=registry)
        ProcessCollector(registry=registry)
        self._watched: _Watched | None = None

    def watch(self, counts: Callable[[], SchedulerCounts], num_busy: Callable[[], int]) -> None:
        """Shows what a scheduler counts and how many threads work, too, in place of what was shown of others before."""
        if self._watched is not None:
            self._registry.unregister(self._watched)
        self._watched = _Watched(counts, num_busy)
        self._registry.register(self._watched)

    def answered_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request has been answered.

        Args:
            route: its template, such as ``/v1/corpora/{name}``; "" where there is none.
            method: of HTTP.
            status: of HTTP; 499 where the client went away.
            seconds: from its arrival to the end of the answer.
        """
        labels = (route or OTHER, method if method in METHODS else OTHER)
        self._requests.labels(*labels, str(status)).inc()
        self._latency.labels(*labels).observe(seconds)
        if status == 429:
            self._refused.inc()
        if status == 499:
            self._cancelled.inc()

    def answered(self, first_token_sec: float, tokens_saved: int) -> None:
        """A question has been answered from stored states.

        Args:
            first_token_sec: from the question to the first token.
            tokens_saved: that those states have read, and nobody had to read again.
        """
        self._first_token.observe(first_token_sec)
        self._saved.inc(tokens_saved)

    def ingested(self, tokens: int, seconds: float) -> None:
        """Something has been read and stored."""
        self._ingested.inc(tokens)
        self._ingest_sec.inc(seconds)

    def opened_corpus(self) -> None:
        """A corpus has been opened to be searched."""
        self._opened.inc()

    def text(self) -> bytes:
        """All of it, in Prometheus's text format 0.0.4."""
        return generate_latest(self._registry)


class _Watched(Collector):
    def __init__(self, counts: Callable[[], SchedulerCounts], num_busy: Callable[[], int]) -> None:
        self._counts, self._num_busy = counts, num_busy

    def collect(self) -> Iterator[Metric]:
        now = self._counts()
        yield GaugeMetricFamily("precog_streams_active", "Askers that the model works for now.", now.active)
        yield GaugeMetricFamily("precog_streams_waiting", "Askers whose turn has not come.", now.waiting)
        yield CounterMetricFamily("precog_streams_refused", "Askers that were told to come later.", now.refused)
        yield CounterMetricFamily("precog_streams_cancelled", "Passes dropped for askers that had gone.", now.cancelled)
        yield CounterMetricFamily("precog_tokens_read", "Tokens of texts and questions, read.", now.tokens_read)
        yield CounterMetricFamily("precog_tokens_generated", "Tokens of answers.", now.tokens_generated)
        yield GaugeMetricFamily("precog_workers_busy", "Requests that threads work on now.", self._num_busy())
