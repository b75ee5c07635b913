"""Settings, exports and imports: start, watch, cancel, download, upload, confirm and undo them."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST, require_safe

from chat import access
from chat.core.errors import ActionRefused
from chat.exports.zip_job import start_export
from chat.imports import jobs as import_jobs
from chat.imports import uploads
from chat.jobs import actions
from chat.jobs.chunks import CHUNK_BYTES
from chat.models import Import, Job, JobStatus
from chat.transfers import downloads, listing
from chat.transfers.forms import ExportForm, ImportForm, TeamForm, UploadForm
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message

refuse = refuse_with_message("data")


@login_required
@require_GET
def page(request: HttpRequest) -> HttpResponse:
    return render(request, "transfers/page.html", listing.page(request.user))


@login_required
@require_GET
def jobs(request: HttpRequest, name: str) -> HttpResponse:
    """One of the two lists, which the page fetches while something in it is in progress."""
    found = listing.list_of(request.user, name)
    context = {
        "name": name,
        "rows": found.rows,
        "earlier": found.earlier,
        "is_active": found.is_active,
    }
    return render(request, "transfers/_list.html", context)


# --- exports --------------------------------------------------------------------------------------


@confirmed_recently()
@login_required
@require_POST
def export(request: HttpRequest) -> HttpResponse:
    form = ExportForm(request.POST, user=request.user)
    if not form.is_valid():
        return _refused(request, exporting=form)
    try:
        start_export(
            request.user,
            scope=form.scope,
            team=form.team,
            form=form.cleaned_data["form"],
            reason=form.cleaned_data.get("reason", ""),
        )
    except ActionRefused as refusal:
        form.add_error(None, str(refusal))
        return _refused(request, exporting=form, status=refusal.status)
    return redirect("data")


@confirmed_recently(gives_file=True)
@login_required
@require_safe
def download(request: HttpRequest, public_id: UUID) -> HttpResponseBase:
    return downloads.download(request, access.get_exported_file(request.user, public_id))


# --- imports --------------------------------------------------------------------------------------


@login_required
@require_POST
def import_file(request: HttpRequest) -> HttpResponse:
    """A whole file in one request, no larger than other uploads: a script sends larger ones."""
    form = ImportForm(request.POST, request.FILES, user=request.user)
    if not form.is_valid():
        return _refused(request, importing=form)
    file, team = form.cleaned_data["file"], form.cleaned_data["team"]
    try:
        uploads.store_file(request.user, team, name=file.name, file=file.file, size_bytes=file.size)
    except ActionRefused as refusal:
        form.add_error(None, str(refusal))
        return _refused(request, importing=form, status=refusal.status)
    return redirect("data")


@login_required
@require_POST
def upload(request: HttpRequest) -> HttpResponse:
    """Begins an upload in pieces."""
    form = UploadForm(request.POST, user=request.user)
    if not form.is_valid():
        return _sentence(next(iter(form.errors.values()))[0])
    said = form.cleaned_data
    try:
        job = uploads.begin_upload(
            request.user, said["team"], name=said["name"], size_bytes=said["size"]
        )
    except ActionRefused as refusal:
        return _sentence(str(refusal), refusal.status)
    return JsonResponse(
        {
            "piece_bytes": CHUNK_BYTES,
            "pieces": reverse("import_piece", args=[job.public_id, 0]).removesuffix("0/"),
            "end": reverse("import_upload_end", args=[job.public_id]),
            "cancel": reverse("job_cancel", args=[job.public_id]),
        }
    )


@login_required
@require_POST
def piece(request: HttpRequest, public_id: UUID, number: int) -> HttpResponse:
    job = _uploading(request, public_id)
    # Reads the stream, because `body` has the limit of forms.
    body = request.read(CHUNK_BYTES + 1)
    try:
        uploads.store_piece(job, number, body)
    except ActionRefused as refusal:
        return _sentence(str(refusal), refusal.status)
    return HttpResponse(status=204)


@login_required
@require_POST
def upload_end(request: HttpRequest, public_id: UUID) -> HttpResponse:
    try:
        uploads.end_upload(_uploading(request, public_id))
    except ActionRefused as refusal:
        return _sentence(str(refusal), refusal.status)
    return HttpResponse(status=204)


def _uploading(request: HttpRequest, public_id: UUID) -> Job:
    job = access.get_job(request.user, public_id)
    if job.status != JobStatus.UPLOADING:
        raise Http404(access.NOT_HERE)
    return job


@post_action(access.get_job, refuse)
def check(request: HttpRequest, job: Job) -> HttpResponse:
    """Checks the file for another team."""
    form = TeamForm(request.POST, user=request.user)
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    import_jobs.check_again(job, form.cleaned_data["team"])
    return redirect("data")


@post_action(access.get_job, refuse)
def confirm(request: HttpRequest, job: Job) -> HttpResponse:
    """Imports into the team of the report. If another one was chosen, that one gets its report."""
    form = TeamForm(request.POST, user=request.user)
    if form.is_valid() and form.cleaned_data["team"] != job.team:
        import_jobs.check_again(job, form.cleaned_data["team"])
    else:
        import_jobs.start_import(job)
    return redirect("data")


@post_action(access.get_import, refuse)
def undo(request: HttpRequest, batch: Import) -> HttpResponse:
    import_jobs.start_undo(request.user, batch)
    return redirect("data")


# --- both -----------------------------------------------------------------------------------------


@post_action(access.get_job, refuse)
def cancel(request: HttpRequest, job: Job) -> HttpResponse:
    actions.cancel(job)
    return redirect("data")


@post_action(access.get_job, refuse)
def remove(request: HttpRequest, job: Job) -> HttpResponse:
    actions.remove(job)
    messages.success(request, gettext("Deleted"))
    return redirect("data")


def _refused(
    request: HttpRequest,
    *,
    exporting: ExportForm | None = None,
    importing: ImportForm | None = None,
    status: int = 422,
) -> HttpResponse:
    context = listing.page(request.user, exporting=exporting, importing=importing)
    return render(request, "transfers/page.html", context, status=status)


def _sentence(text: str, status: int = 422) -> HttpResponse:
    """A sentence that the uploading script shows beside the form."""
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
