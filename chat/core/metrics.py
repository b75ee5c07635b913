"""Every metric that `/metrics` shows: its name, its labels, and what it counts.

Labels come from fixed sets or from administrators (names of servers), never from runs, users,
models or text of an upstream. `docs/metrics.md` explains each metric for operators; a test compares
the two.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST

# The start time of each series is known from the process; it would double the page.
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

Values = Mapping[str, float]


class FastCounter(Collector):
    """A counter for events of each frame or commit: 0.1 µs, where the library's takes 1.5. It has
    no lock, so call `add` on the event loop only."""

    def __init__(self, name: str, documentation: str, label: str = "") -> None:
        self._name = name
        self._documentation = documentation
        self._labels = [label] if label else []
        self._values: defaultdict[str, float] = defaultdict(float)
        if not label:
            self._values[""] = 0.0
        REGISTRY.register(self)

    def add(self, amount: float, label: str = "") -> None:
        self._values[label] += amount

    def value(self, label: str = "") -> float:
        return self._values.get(label, 0.0)

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(self._name, self._documentation, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for label, value in self._values.items():
            family.add_metric([label] if self._labels else [], value)
        yield family


class Reading(Collector):
    """A gauge that is read only when the page is requested. Sources are added up, label by label.

    A source is called on the event loop, must not wait, and returns a value for each label (for
    ``""`` if there are none). What it leaves out is not shown, because an unknown value is not
    zero.
    """

    def __init__(self, name: str, documentation: str, label: str = "") -> None:
        self._name = name
        self._documentation = documentation
        self._labels = [label] if label else []
        self._sources: list[Callable[[], Values]] = []
        REGISTRY.register(self)

    def read_from(self, source: Callable[[], Values]) -> None:
        self._sources.append(source)

    def values(self) -> dict[str, float]:
        found: defaultdict[str, float] = defaultdict(float)
        for source in self._sources:
            for label, value in source().items():
                found[label] += value
        return dict(found)

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(self._name, self._documentation, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for label, value in self.values().items():
            family.add_metric([label] if self._labels else [], value)
        yield family


# --- this process -----------------------------------------------------------------------

BUILD = Gauge(
    "tributary_build",
    "Always 1; the labels tell version and part: web or runner.",
    ["version", "part"],
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "tributary_event_loop_lag_seconds",
    "By how much the event loop woke a sleeper too late, sampled ten times a second.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=REGISTRY,
)
LOOP_LAG_MAX = Reading(
    "tributary_event_loop_lag_max_seconds", "The longest lag of the last half minute."
)
DATABASE_QUEUE = Reading(
    "tributary_database_queue_calls",
    "Calls that wait for a thread of a database pool of this process.",
    "pool",
)
POOL_CONNECTIONS = Reading(
    "tributary_database_pool_connections", "Connections of the database pool: used, free.", "state"
)
POOL_WAITING = Reading(
    "tributary_database_pool_waiting_calls", "Calls that wait for a connection of the pool."
)
LOG_LINES = Counter(
    "tributary_log_lines_total", "Lines written to the log.", ["level"], registry=REGISTRY
)

# --- what the installation shares, read from the database ---------------------------------

DATABASE_UP = Reading("tributary_database_up", "Whether the database answered in time: 1 or 0.")
DATABASE_LATENCY = Reading(
    "tributary_database_latency_seconds", "How long the database's last answer took."
)
DATABASE_CLOCK = Reading(
    "tributary_database_clock_offset_seconds", "The database's clock minus ours."
)
REDIS_UP = Reading("tributary_redis_up", "Whether Redis answered in time; absent without Redis.")
RUNS = Reading("tributary_runs", "Live runs by state, in the whole installation.", "state")
QUEUED = Reading(
    "tributary_queued_runs", "Runs that wait in line, by the upstream's name.", "upstream"
)
RUNNING = Reading("tributary_running_runs", "Runs under way, by the upstream's name.", "upstream")
OLDEST_QUEUED = Reading(
    "tributary_queue_oldest_seconds", "For how long the first in line has waited."
)
RUNNERS = Reading("tributary_runners", "Runners by state: alive, draining, lost.", "state")
OLDEST_HEARTBEAT = Reading(
    "tributary_runner_heartbeat_oldest_seconds", "Age of the oldest heartbeat of a living runner."
)

# --- executing runs -----------------------------------------------------------------------

EXECUTING = Reading("tributary_executing_runs", "Runs that this process executes.")
CLAIMED = Counter(
    "tributary_runs_claimed_total", "Runs that this process took from the line.", registry=REGISTRY
)
ENDED = Counter(
    "tributary_runs_ended_total",
    "Runs that this process ended, by how they ended; also lost ones that it settled.",
    ["status"],
    registry=REGISTRY,
)
QUEUE_SECONDS = Histogram(
    "tributary_queue_seconds",
    "From the sending of a message to the claim of its run.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
    registry=REGISTRY,
)
FIRST_EVENT_SECONDS = Histogram(
    "tributary_first_event_seconds",
    "From the request to the first event of the upstream.",
    ["upstream"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900),
    registry=REGISTRY,
)
RUN_SECONDS = Histogram(
    "tributary_run_seconds",
    "From the claim of a run to its end.",
    buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RECEIVED_EVENTS = FastCounter(
    "tributary_upstream_events_total", "Canonical events made of what upstreams sent, unmerged."
)
RECEIVED_DELTAS = FastCounter(
    "tributary_upstream_deltas_total", "Those of them that are pieces of text, unmerged."
)
RECEIVED_BYTES = FastCounter(
    "tributary_upstream_bytes_total", "Bytes of answers read from upstreams."
)
LOGGED_EVENTS = FastCounter(
    "tributary_log_events_total", "Events committed to logs, after adjacent deltas were merged."
)
COMMIT_SECONDS = Histogram(
    "tributary_commit_seconds",
    "One group commit of the segment writer, tries while the database was away included.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
    registry=REGISTRY,
)
COMMIT_RUNS = Histogram(
    "tributary_commit_runs",
    "Runs whose events went into one group commit.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
    registry=REGISTRY,
)
COMMIT_FAILURES = Counter(
    "tributary_commit_failures_total",
    "Group commits that were tried again because the database was away.",
    registry=REGISTRY,
)
PENDING_BYTES = Reading(
    "tributary_pending_bytes", "What was read from upstreams and is not committed yet."
)
OWNERSHIP_LOST = Counter(
    "tributary_runs_lost_total",
    "Runs that another process had ended or taken while this one executed them.",
    registry=REGISTRY,
)

# --- upstreams ----------------------------------------------------------------------------

ATTEMPTS = Counter(
    "tributary_upstream_attempts_total",
    "Requests for answers, by the upstream's name and what became of them.",
    ["upstream", "outcome"],
    registry=REGISTRY,
)
UPSTREAM_ERRORS = Counter(
    "tributary_upstream_errors_total",
    "Requests for answers that failed, by the upstream's name and the kind of error.",
    ["upstream", "kind"],
    registry=REGISTRY,
)
UNKNOWN_EVENTS = Counter(
    "tributary_unknown_events_total",
    "Events or members that a dialect does not know; they are kept and shown.",
    ["dialect"],
    registry=REGISTRY,
)
STOPS = Counter("tributary_stops_total", "Running runs that somebody stopped.", registry=REGISTRY)
STOP_SECONDS = Histogram(
    "tributary_stop_seconds",
    "From a person's stop to the closed connection to the upstream.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)

# --- change notifications and the event buffer ---------------------------------------------

NOTIFICATIONS_SENT = Counter(
    "tributary_notifications_sent_total",
    "Change notifications of this process, by result: sent or lost.",
    ["result"],
    registry=REGISTRY,
)
NOTIFICATIONS_RECEIVED = Counter(
    "tributary_notifications_received_total", "Change notifications received.", registry=REGISTRY
)
NOTIFICATION_FAILURES = Counter(
    "tributary_notification_failures_total",
    "Lost subscriptions to the channel layer.",
    registry=REGISTRY,
)
LOG_READS = FastCounter(
    "tributary_log_reads_total",
    "Reads of followers by where they found events: buffer, database, or nowhere.",
    "found",
)

# --- viewers --------------------------------------------------------------------------------

VIEWERS = Reading(
    "tributary_viewers",
    "Open live connections: websocket, sse, poll, events (programs).",
    "transport",
)
VIEWERS_BEHIND = Reading(
    "tributary_viewers_behind", "Viewers that have not acknowledged what they were sent."
)
VIEWERS_ENDED = Counter(
    "tributary_viewers_ended_total",
    "Live connections that we ended, by reason: signed-out, access, deleted, unsure, behind, busy.",
    ["reason"],
    registry=REGISTRY,
)
REPLACEMENTS = Counter(
    "tributary_replacements_total",
    "Answers sent anew as a whole: the cursor was of another log, or the page asked for it.",
    ["reason"],
    registry=REGISTRY,
)
CATCH_UPS = FastCounter(
    "tributary_catch_ups_total",
    "Patches made for one viewer alone, because it was not at the edge of a shared frame.",
)
SNAPSHOTS = Counter(
    "tributary_snapshots_total",
    "Answers put into pages, by whether they were rendered or still kept: rendered, kept.",
    ["source"],
    registry=REGISTRY,
)
FRAMES_RENDERED = FastCounter(
    "tributary_frames_rendered_total", "Frames made, each once for all viewers of its run."
)
FRAMES_SENT = FastCounter(
    "tributary_frames_sent_total", "Frames and batches sent to viewers.", "transport"
)
BYTES_SENT = FastCounter(
    "tributary_sent_bytes_total", "Bytes of those, before the transport's own framing.", "transport"
)
BROADCASTERS = Reading("tributary_broadcasters", "Runs that this process renders for viewers.")
CHECK_SECONDS = Histogram(
    "tributary_access_check_seconds",
    "One look at the rights of all viewers of this process.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=REGISTRY,
)
CONNECTIONS_CUT = Counter(
    "tributary_connections_cut_total",
    "Connections cut because the client took nothing: stalled, or memory.",
    ["reason"],
    registry=REGISTRY,
)
OUTGOING_BYTES = Reading(
    "tributary_outgoing_pending_bytes", "Bytes that wait for clients that do not read."
)
SIGN_INS = Counter(
    "tributary_sign_ins_total",
    "Tries to sign in with a password, by result: accepted, refused, limited.",
    ["result"],
    registry=REGISTRY,
)


def exposition() -> bytes:
    """The page in the text format of Prometheus."""
    return generate_latest(REGISTRY)
