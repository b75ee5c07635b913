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
    ``""`` if there are none). Missing labels are not shown, because an unknown value is not zero.
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
    "Always 1. Labels: version, and part (web or runner).",
    ["version", "part"],
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "tributary_event_loop_lag_seconds",
    "Lag of the event loop, sampled ten times a second.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=REGISTRY,
)
LOOP_LAG_MAX = Reading(
    "tributary_event_loop_lag_max_seconds", "Longest event loop lag of the last 30 seconds."
)
DATABASE_QUEUE = Reading(
    "tributary_database_queue_calls",
    "Calls waiting for a thread of a database pool in this process.",
    "pool",
)
POOL_CONNECTIONS = Reading(
    "tributary_database_pool_connections", "Connections of the database pool: used, free.", "state"
)
POOL_WAITING = Reading(
    "tributary_database_pool_waiting_calls", "Calls waiting for a connection of the pool."
)
LOG_LINES = Counter(
    "tributary_log_lines_total", "Lines written to the log.", ["level"], registry=REGISTRY
)

# --- what the installation shares, read from the database ---------------------------------

DATABASE_UP = Reading("tributary_database_up", "Whether the database answered in time: 1 or 0.")
DATABASE_LATENCY = Reading(
    "tributary_database_latency_seconds", "Time that the database's last response took."
)
DATABASE_CLOCK = Reading(
    "tributary_database_clock_offset_seconds", "The database's clock minus this process's clock."
)
REDIS_UP = Reading("tributary_redis_up", "Whether Redis answered in time; absent without Redis.")
RUNS = Reading("tributary_runs", "Live runs by state, in the whole installation.", "state")
QUEUED = Reading("tributary_queued_runs", "Queued runs, by server name.", "upstream")
RUNNING = Reading("tributary_running_runs", "Running runs, by server name.", "upstream")
OLDEST_QUEUED = Reading("tributary_queue_oldest_seconds", "Waiting time of the oldest queued run.")
RUNNERS = Reading("tributary_runners", "Runners by state: alive, draining, lost.", "state")
OLDEST_HEARTBEAT = Reading(
    "tributary_runner_heartbeat_oldest_seconds", "Age of the oldest heartbeat of a living runner."
)

# --- executing runs -----------------------------------------------------------------------

EXECUTING = Reading("tributary_executing_runs", "Runs that this process executes.")
CLAIMED = Counter(
    "tributary_runs_claimed_total",
    "Runs that this process claimed from the queue.",
    registry=REGISTRY,
)
ENDED = Counter(
    "tributary_runs_ended_total",
    "Runs that this process ended, by status, including runs of lost runners.",
    ["status"],
    registry=REGISTRY,
)
QUEUE_SECONDS = Histogram(
    "tributary_queue_seconds",
    "Time from sending a message to the claim of its run.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
    registry=REGISTRY,
)
FIRST_EVENT_SECONDS = Histogram(
    "tributary_first_event_seconds",
    "Time from the request to the first event of the server.",
    ["upstream"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900),
    registry=REGISTRY,
)
RUN_SECONDS = Histogram(
    "tributary_run_seconds",
    "Time from the claim of a run to its end.",
    buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RECEIVED_EVENTS = FastCounter(
    "tributary_upstream_events_total",
    "Canonical events decoded from answers of servers, before merging.",
)
RECEIVED_DELTAS = FastCounter(
    "tributary_upstream_deltas_total", "Text deltas among those events, before merging."
)
RECEIVED_BYTES = FastCounter(
    "tributary_upstream_bytes_total", "Bytes of answers read from servers."
)
LOGGED_EVENTS = FastCounter(
    "tributary_log_events_total", "Events committed to logs, after merging adjacent deltas."
)
COMMIT_SECONDS = Histogram(
    "tributary_commit_seconds",
    "Duration of one group commit of the segment writer, including retries.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
    registry=REGISTRY,
)
COMMIT_RUNS = Histogram(
    "tributary_commit_runs",
    "Runs with events in one group commit.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
    registry=REGISTRY,
)
COMMIT_FAILURES = Counter(
    "tributary_commit_failures_total",
    "Group commits that were retried because the database was unavailable.",
    registry=REGISTRY,
)
PENDING_BYTES = Reading("tributary_pending_bytes", "Bytes read from servers and not committed yet.")
OWNERSHIP_LOST = Counter(
    "tributary_runs_lost_total",
    "Runs that another process ended or claimed while this one executed them.",
    registry=REGISTRY,
)

# --- upstreams ----------------------------------------------------------------------------

ATTEMPTS = Counter(
    "tributary_upstream_attempts_total",
    "Requests for answers, by server name and outcome.",
    ["upstream", "outcome"],
    registry=REGISTRY,
)
TOOL_CALLS = Counter(
    "tributary_tool_calls",
    "Calls of tools that Tributary runs, by kind of tool and outcome.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
TOOL_CALL_SECONDS = Histogram(
    "tributary_tool_call_seconds",
    "Time from sending a call of a tool to its end.",
    ["kind"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
    registry=REGISTRY,
)
UPSTREAM_ERRORS = Counter(
    "tributary_upstream_errors_total",
    "Failed requests for answers, by server name and kind of error.",
    ["upstream", "kind"],
    registry=REGISTRY,
)
UNKNOWN_EVENTS = Counter(
    "tributary_unknown_events_total",
    "Events or members that a dialect doesn't know; they are stored and shown.",
    ["dialect"],
    registry=REGISTRY,
)
STOPS = Counter("tributary_stops_total", "Running runs that someone stopped.", registry=REGISTRY)
STOP_SECONDS = Histogram(
    "tributary_stop_seconds",
    "Time from a person's stop to the closed connection to the server.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)

# --- change notifications and the event buffer ---------------------------------------------

NOTIFICATIONS_SENT = Counter(
    "tributary_notifications_sent_total",
    "Change notifications sent by this process, by result: sent or lost.",
    ["result"],
    registry=REGISTRY,
)
NOTIFICATIONS_RECEIVED = Counter(
    "tributary_notifications_received_total", "Change notifications received.", registry=REGISTRY
)
NOTIFICATION_FAILURES = Counter(
    "tributary_notification_failures_total",
    "Connections for reading from Redis that were lost.",
    registry=REGISTRY,
)
LOG_READS = FastCounter(
    "tributary_log_reads_total",
    "Reads of log followers, by where they found events: buffer, database, or nowhere.",
    "found",
)

# --- viewers --------------------------------------------------------------------------------

VIEWERS = Reading(
    "tributary_viewers",
    "Open live connections, by transport: websocket, sse, poll, events (API).",
    "transport",
)
VIEWERS_BEHIND = Reading("tributary_viewers_behind", "Viewers with unacknowledged updates.")
VIEWERS_ENDED = Counter(
    "tributary_viewers_ended_total",
    "Live connections ended by the server, by reason: signed-out, access, deleted, expired, unsure, behind, busy.",
    ["reason"],
    registry=REGISTRY,
)
REPLACEMENTS = Counter(
    "tributary_replacements_total",
    "Answers sent again as a whole, because the cursor was of another log or the page asked for it.",
    ["reason"],
    registry=REGISTRY,
)
PAGE_UPDATES = Counter(
    "tributary_page_updates_total",
    "Changes of pages, by kind (conversation, list): sent, or left to a request of the page.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
CATCH_UPS = FastCounter(
    "tributary_catch_ups_total",
    "Patches rendered for a single viewer that was not at the edge of a shared frame.",
)
SNAPSHOTS = Counter(
    "tributary_snapshots_total",
    "Answers put into pages, by source: rendered, or kept from before.",
    ["source"],
    registry=REGISTRY,
)
FRAMES_RENDERED = FastCounter(
    "tributary_frames_rendered_total", "Frames rendered, each once for all viewers of its run."
)
FRAMES_SENT = FastCounter(
    "tributary_frames_sent_total", "Frames and batches sent to viewers.", "transport"
)
BYTES_SENT = FastCounter(
    "tributary_sent_bytes_total",
    "Bytes of those frames, without the transport's framing.",
    "transport",
)
BROADCASTERS = Reading("tributary_broadcasters", "Runs that this process renders for viewers.")
CHECK_SECONDS = Histogram(
    "tributary_access_check_seconds",
    "Duration of one access check of all viewers of this process.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=REGISTRY,
)
CONNECTIONS_CUT = Counter(
    "tributary_connections_cut_total",
    "Connections closed because the client didn't read, by reason: stalled, memory.",
    ["reason"],
    registry=REGISTRY,
)
MESSAGES_REFUSED = Counter(
    "tributary_messages_refused_total",
    "Messages that were refused because too many others waited; pages send them again.",
    registry=REGISTRY,
)
OUTGOING_BYTES = Reading(
    "tributary_outgoing_pending_bytes", "Bytes waiting for clients to read them."
)
SIGN_INS = Counter(
    "tributary_sign_ins_total",
    "Sign-in attempts, with passwords and at providers, by result: accepted, refused, limited.",
    ["result"],
    registry=REGISTRY,
)


def exposition() -> bytes:
    """The page in the text format of Prometheus."""
    return generate_latest(REGISTRY)
