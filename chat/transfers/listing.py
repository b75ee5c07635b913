"""The contents of the page: the forms, and the person's exports and imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext

from chat import access
from chat.imports.formats import FORMATS
from chat.models import Import, Job, JobKind, JobScope, JobStatus, User
from chat.rendering.figures import count, percent, size
from chat.transfers.forms import FORM_CHOICES, ExportForm, ImportForm, TeamForm

# Imports of earlier times, which have no job any more.
MOST_EARLIER = 50
# No import takes longer.
LONGEST = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as its list shows it. ``batch``: what it has imported, which can be undone."""

    job: Job
    title: str
    size: str
    step: str
    batch: Import | None = None
    format: str = ""
    team_form: TeamForm | None = None

    @property
    def percent(self) -> int | None:
        job = self.job
        return percent(job.done / job.total) if job.total else None

    @property
    def progress(self) -> str:
        if not self.job.total:
            return ""
        words = ngettext(
            "%(done)s of %(total)s conversation",
            "%(done)s of %(total)s conversations",
            self.job.total,
        )
        return words % {"done": count(self.job.done), "total": count(self.job.total)}

    @property
    def is_ready(self) -> bool:
        """True if the person is to decide about the import."""
        return self.job.kind == JobKind.CHECK and self.job.status == JobStatus.DONE

    @property
    def may_undo(self) -> bool:
        batch = self.batch
        return batch is not None and batch.undone_at is None and not self.job.is_active


def exports_of(user: User) -> list[JobRow]:
    jobs = access.jobs_of(user).filter(kind=JobKind.EXPORT)
    return [_export_row(job) for job in jobs]


def _export_row(job: Job) -> JobRow:
    labels = {JobScope.OWN: JobScope.OWN.label, JobScope.ALL: gettext("All conversations")}
    if job.scope == JobScope.TEAM:
        what = gettext("Conversations shared with %(team)s") % {"team": job.team}
    else:
        what = str(labels[JobScope(job.scope)])
    title = gettext("%(what)s as %(format)s") % {
        "what": what,
        "format": dict(FORM_CHOICES)[job.form],
    }
    is_done = job.status == JobStatus.DONE
    return JobRow(
        job=job, title=title, size=size(job.size_bytes) if is_done else "", step=_step(job)
    )


def imports_of(user: User) -> list[JobRow]:
    jobs = access.jobs_of(user).exclude(kind=JobKind.EXPORT)
    batches = {batch.job_id: batch for batch in Import.objects.filter(user=user, job__in=jobs)}
    teams = access.writable_teams(user).count()
    return [_import_row(job, batches.get(job.pk), user, teams) for job in jobs]


def _import_row(job: Job, batch: Import | None, user: User, teams: int) -> JobRow:
    name = batch.format if batch else job.result.get("format", "")
    label = FORMATS[name].label if name in FORMATS else ""
    is_choice = teams > 1 and job.kind == JobKind.CHECK and job.status == JobStatus.DONE
    form = (
        TeamForm(user=user, initial={"team": job.team}, auto_id=f"team-{job.public_id.hex}-%s")
        if is_choice
        else None
    )
    title = job.file_name or gettext("Import from %(product)s") % {"product": label}
    return JobRow(
        job=job,
        title=title,
        size=size(job.size_bytes) if job.size_bytes else "",
        step=_step(job),
        batch=batch,
        format=label,
        team_form=form,
    )


def earlier_imports(user: User) -> list[tuple[Import, str]]:
    """Imports that can be undone and have no job any more (made by a command, long ago, or
    interrupted for good), each with the name of its product."""
    rows = Import.objects.filter(user=user).exclude(job__in=access.jobs_of(user))
    is_over = Q(finished_at__isnull=False) | Q(created_at__lt=timezone.now() - LONGEST)
    rows = rows.filter(is_over, undone_at__isnull=True).select_related("team")
    rows = rows.annotate(imported=Count("sources"))
    return [
        (row, FORMATS[row.format].label if row.format in FORMATS else row.format)
        for row in rows[:MOST_EARLIER]
    ]


def _step(job: Job) -> str:
    """The current step, in a word or two; empty if there is none."""
    if job.status == JobStatus.UPLOADING:
        return gettext("Uploading")
    if job.status == JobStatus.QUEUED:
        return gettext("Queued")
    if job.status != JobStatus.RUNNING:
        return ""
    if job.cancel_requested_at:
        return gettext("Canceling")
    words = {
        JobKind.EXPORT: gettext("Exporting"),
        JobKind.CHECK: gettext("Checking"),
        JobKind.IMPORT: gettext("Importing"),
        JobKind.UNDO: gettext("Undoing the import"),
    }
    return words[JobKind(job.kind)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """``earlier``: imports without a job, each with the name of its product."""

    rows: Sequence[JobRow]
    earlier: Sequence[tuple[Import, str]] = ()

    @property
    def is_active(self) -> bool:
        """True if it changes by itself."""
        return any(row.job.is_active for row in self.rows)


def list_of(user: User, name: str) -> JobList:
    if name == "exports":
        return JobList(rows=exports_of(user))
    return JobList(rows=imports_of(user), earlier=earlier_imports(user))


def page(
    user: User, *, exporting: ExportForm | None = None, importing: ImportForm | None = None
) -> dict[str, Any]:
    return {
        "export_form": exporting or ExportForm(user=user),
        "import_form": importing or ImportForm(user=user),
        "products": get_text_list([each.label for each in FORMATS.values()], gettext("or")),
        "most_exports": settings.EXPORTS_PER_PERSON,
        "has_team": access.writable_teams(user).exists(),
        "without_team": partial(access.without_team_text, user),
        "exports": list_of(user, "exports"),
        "imports": list_of(user, "imports"),
    }
