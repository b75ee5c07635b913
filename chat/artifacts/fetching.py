"""Fetches the files of mockups from their upstreams, with the upstream's key, and stores them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Now
from django.utils.translation import gettext, gettext_noop

from chat.artifacts.actions import FILES, TOO_LARGE
from chat.artifacts.paths import BAD_PATH, path_problem
from chat.core.encryption import DecryptionError
from chat.core.notify import publish_after_commit, room_topic
from chat.core.threads import DatabaseThreads
from chat.dialects import DIALECTS
from chat.models import (
    FetchStatus,
    FileContent,
    Mockup,
    MockupFile,
    MockupVersion,
    NewContent,
    SearchKind,
    StoredFile,
    Upstream,
)
from chat.runs.runner import PeriodicTask
from chat.search.sources import index
from chat.upstreams.client import Client, fetch_file
from chat.upstreams.failures import UpstreamError
from chat.upstreams.redaction import Redactor, credentials_of

logger = logging.getLogger(__name__)

# How many files one runner fetches at the same time.
AT_ONCE = 4
# Attempts with growing delays: an upstream may still be writing the bundle.
ATTEMPTS = 4
PAUSES_SECONDS = (5, 30, 120)
# New files are announced. The poll is for lost notifications, for later attempts, and for what a
# restart left behind.
FETCH_SECONDS = 5.0
# A process that took a file and has not reported for this much longer than a fetch may take is
# gone.
LEASE_MARGIN_SECONDS = 30

# The database's clock is used, because the clocks of hosts differ. The first attempt is due at
# once.
DUE = Q(attempts=0) | Q(due_at__lte=Now())

NO_SERVER = gettext_noop("The server that made this file was removed or disabled.")
LOCKED = gettext_noop(
    "The server’s API key can’t be decrypted. Ask an administrator to enter it again."
)
BUNDLE_TOO_LARGE = gettext_noop("The files in this version exceed the size limit.")
GONE = gettext_noop("The download didn’t finish after several attempts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchJob:
    """One path to fetch, for every version that wants it. ``headers`` hold the credential."""

    file_ids: Sequence[int]
    mockup_id: int
    attempt: int
    base_url: str
    path: str
    headers: dict[str, str] = field(repr=False)
    redactor: Redactor = field(repr=False)


class MockupFetcher:
    """The part of a runner that fetches what is due, a few files at a time, until nothing is
    left."""

    def __init__(self, *, client: Client, threads: DatabaseThreads) -> None:
        self._client = client
        self._threads = threads

    async def fetch_due(self) -> None:
        """Fetches what is due. If it is cancelled, the files that it took are due again when their
        lease ends."""
        while jobs := await self._threads.call(take_due):
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(self._fetch(job))

    async def _fetch(self, job: FetchJob) -> None:
        try:
            body = await fetch_file(
                self._client,
                base_url=job.base_url,
                path=job.path,
                headers=job.headers,
                redactor=job.redactor,
                limit_bytes=settings.MOCKUP_FILE_BYTES,
                seconds=settings.MOCKUP_FETCH_SECONDS,
            )
        except UpstreamError as error:
            await self._threads.call(_failed, job, error)
        else:
            await self._threads.call(_store_body, job, body)


FETCH_FILES = PeriodicTask(
    topic=FILES,
    seconds=FETCH_SECONDS,
    make=lambda client, threads: MockupFetcher(client=client, threads=threads).fetch_due,
)


# --- in a database thread ---------------------------------------------------------------------


def take_due() -> list[FetchJob]:
    """Takes files that no other process is fetching, by a conditional update of ``due_at``.

    Versions of a bundle that want the same path share one job: an upstream serves only the newest
    bytes, and a path that changed in between is no longer wanted for the older version.
    """
    jobs: list[FetchJob] = []
    for file in _due()[:AT_ONCE]:
        same = list(_wanting(file.version.mockup_id, file.path).values_list("pk", flat=True))
        if _take(same) and (job := _job_for(file, same)):
            jobs.append(job)
    return jobs


def _wanted_now() -> QuerySet[MockupFile]:
    return MockupFile.objects.filter(
        DUE,
        status=FetchStatus.WANTED,
        version__mockup__conversation__deleted_at__isnull=True,
    )


def _due() -> list[MockupFile]:
    """The newest row of each path that is wanted and due, the longest waiting first."""
    # This runs at the end of each answer, and few answers bring files.
    if not _wanted_now().exists():
        return []
    rows = (
        _wanted_now()
        .select_related("version__mockup", "version__run__upstream")
        .defer("version__run__result")
        .order_by("due_at", "pk")[: 10 * AT_ONCE]
    )
    newest: dict[tuple[int, str], MockupFile] = {}
    for row in rows:
        key = (row.version.mockup_id, row.path)
        if key not in newest or newest[key].version.number < row.version.number:
            newest[key] = row
    return list(newest.values())


def _wanting(mockup_id: int, path: str) -> QuerySet[MockupFile]:
    return MockupFile.objects.filter(
        version__mockup_id=mockup_id, path=path, status=FetchStatus.WANTED
    )


def _take(file_ids: Sequence[int]) -> bool:
    """Returns whether this process took these files. The condition only reads columns of the row itself, so
    of two processes that try at the same moment one finds the files taken."""
    lease = timedelta(seconds=settings.MOCKUP_FETCH_SECONDS + LEASE_MARGIN_SECONDS)
    taken = MockupFile.objects.filter(DUE, pk__in=file_ids, status=FetchStatus.WANTED).update(
        due_at=Now() + lease, attempts=F("attempts") + 1
    )
    return taken > 0


def _job_for(file: MockupFile, same: Sequence[int]) -> FetchJob | None:
    """How to fetch the file. ``None`` if that is not possible; the rows then say why."""
    mockup = file.version.mockup
    # The upstream of the run, not of the bundle: what another server wrote never decides what is
    # requested from this one.
    upstream = file.version.run.upstream
    refusal = _why_not(file, upstream)
    if refusal:
        _refuse(mockup.pk, same, refusal)
        return None
    assert upstream is not None
    try:
        key, options = upstream.open_key(), upstream.all_options()
    except DecryptionError:
        _refuse(mockup.pk, same, LOCKED)
        return None
    dialect = DIALECTS[upstream.dialect]
    base_url = prefix_of(upstream)
    is_same_server = _server_of(base_url) == _server_of(upstream.base_url)
    return FetchJob(
        file_ids=same,
        mockup_id=mockup.pk,
        attempt=file.attempts + 1,
        base_url=base_url,
        path=encoded(f"{mockup.bundle_id}/{file.path}"),
        # A key is only sent to the scheme, host and port that it was entered for.
        headers=dialect.headers(key, options) if is_same_server else {},
        redactor=Redactor(credentials_of(dialect, key, options)),
    )


def _why_not(file: MockupFile, upstream: Upstream | None) -> str:
    if upstream is None or not upstream.is_enabled or upstream.dialect not in DIALECTS:
        return NO_SERVER
    if file.attempts >= ATTEMPTS:
        return GONE
    bundle_id = file.version.mockup.bundle_id
    if "/" in bundle_id or path_problem(bundle_id) or path_problem(file.path):
        return BAD_PATH
    return ""


def prefix_of(upstream: Upstream) -> str:
    """The address below which bundles are served: an option of the upstream (absolute, or below its
    host), else the base URL without its trailing ``/v1``, plus ``/v1/mockups``."""
    base = upstream.base_url.rstrip("/")
    option = upstream.options.get("mockup_prefix")
    if not isinstance(option, str) or not option.strip():
        return f"{base.removesuffix('/v1')}/v1/mockups"
    option = option.strip()
    if option.startswith(("http://", "https://")):
        return option
    url = urlsplit(base)
    return f"{url.scheme}://{url.netloc}/{option.lstrip('/')}"


def _server_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    ports = {"http": 80, "https": 443}
    try:
        return parts.scheme, parts.hostname, parts.port or ports.get(parts.scheme)
    except ValueError:
        return parts.scheme, parts.hostname, None


def encoded(path: str) -> str:
    return "/".join(quote(segment, safe="") for segment in path.split("/"))


def _refuse(mockup_id: int, file_ids: Sequence[int], reason: str) -> None:
    with transaction.atomic():
        MockupFile.objects.filter(pk__in=file_ids, status=FetchStatus.WANTED).update(
            status=FetchStatus.REFUSED, reason=reason[:300]
        )
        _publish_if_settled(mockup_id)


def _failed(job: FetchJob, error: UpstreamError) -> None:
    """Schedules another attempt, or gives up. The server's own error text is not repeated here."""
    is_last = job.attempt >= ATTEMPTS or not error.info.retryable
    logger.info(
        "mockup.fetch_failed mockup=%d attempt=%d kind=%s status=%s",
        job.mockup_id,
        job.attempt,
        error.info.kind,
        error.info.status,
    )
    if is_last:
        _refuse(job.mockup_id, job.file_ids, _in_words(error))
        return
    pause = timedelta(seconds=PAUSES_SECONDS[job.attempt - 1])
    MockupFile.objects.filter(pk__in=job.file_ids, status=FetchStatus.WANTED).update(
        due_at=Now() + pause
    )


def _in_words(error: UpstreamError) -> str:
    info = error.info
    if info.kind == "too_large":
        return TOO_LARGE
    if info.status and info.status >= 400:
        words = gettext("The server answered with HTTP status %(status)d.")
        return words % {"status": info.status}
    return info.message


def _store_body(job: FetchJob, body: bytes) -> None:
    """Stores the bytes once, for every version that still wants them and has room."""
    new = NewContent(body=body)
    with (
        FileContent.objects.writing([new], is_optional=True) as [content],
        transaction.atomic(),
    ):
        # Files of one bundle that arrive at the same time, here or in another process, wait for
        # each other, so that each sees the size of those before. This does not protect against a
        # version that is added meanwhile; it may exceed the limit.
        Mockup.objects.select_for_update(no_key=True).filter(pk=job.mockup_id).first()
        wanting = list(
            MockupFile.objects.filter(pk__in=job.file_ids, status=FetchStatus.WANTED)
            .select_related("version__mockup")
            .order_by("pk")
        )
        if not wanting:
            return  # The file was replaced meanwhile.
        fitting = [file for file in wanting if _has_room(file.version, len(body))]
        if fitting:
            _keep(fitting, content)
        rest = [file.pk for file in wanting if file not in fitting]
        _refuse(job.mockup_id, rest, BUNDLE_TOO_LARGE)


def _keep(wanting: Sequence[MockupFile], content: NewContent) -> None:
    first = wanting[0]
    stored = StoredFile.objects.store(
        first.version.mockup.conversation_id,
        name=first.path.rsplit("/", 1)[-1],
        media_type=first.content_type,
        content=content,
    )
    MockupFile.objects.filter(pk__in=[file.pk for file in wanting]).update(
        status=FetchStatus.STORED, file=stored, reason=""
    )
    index(SearchKind.FILE, stored)


def _has_room(version: MockupVersion, size: int) -> bool:
    of_version = StoredFile.objects.filter(
        pk__in=MockupFile.objects.filter(version=version).values("file_id")
    )
    stored = of_version.aggregate(total=Sum("size_bytes"))["total"] or 0
    return bool(stored + size <= settings.MOCKUP_BUNDLE_BYTES)


def _publish_if_settled(mockup_id: int) -> None:
    """Tells the room when no file of a bundle is pending any more: once, not for every file."""
    if MockupFile.objects.filter(version__mockup_id=mockup_id, status=FetchStatus.WANTED).exists():
        return
    mockup = Mockup.objects.select_related("conversation").filter(pk=mockup_id).first()
    if mockup is not None:  # None: it was deleted during the fetch.
        mockup.conversation.touch()
        publish_after_commit(room_topic(mockup.conversation.public_id))
