"""Views of files in messages that are not sent yet: add, look into, choose pages, remove."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.core.text import as_uuid
from chat.documents.actions import document_of
from chat.documents.texts import text_of
from chat.files import unsent
from chat.files.actions import read_upload
from chat.files.chips import Chip, characters_of, facts_of, unsent_chip, unsent_chips
from chat.models import FileUse, Project, UnsentFile, User
from chat.rendering.figures import count
from chat.web.decorators import login_required, post_action
from chat.web.files import code_of

# A script of the page gets chips, and a refusal as plain text; without scripts the page is shown again.


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add(request: HttpRequest, place: str) -> HttpResponse:
    """The chips of all files, for a tab that has missed some. POST uploads files, or adds one of the project."""
    project = access.get_draft_place(request.user, place)
    if request.method != "POST" and not _is_from_script(request):
        return _back(request, place)
    if request.method != "POST":
        chips = unsent_chips(cast(User, request.user), place)
        return render(request, "files/_chips.html", {"chips": chips, "place": place})
    try:
        rows = _added(request, place, project)
    except ActionRefused as refusal:
        return _refused(request, place, refusal)
    if not _is_from_script(request):
        return _back(request, place)
    context = {"chips": [_chip(row) for row in rows], "place": place}
    return render(request, "files/_chips.html", context)


def _added(request: HttpRequest, place: str, project: Project | None) -> list[UnsentFile]:
    shared = request.POST.get("shared")
    if shared:
        files = access.shared_files(request.user, project.pk) if project else None
        file = files.filter(public_id=as_uuid(shared)).first() if files is not None else None
        if file is None:
            raise ActionRefused(gettext("This file is no longer in the project. Reload the page."))
        return [unsent.add_shared(request.user, place, file)]
    uploads = request.FILES.getlist("file")
    if not uploads:
        raise ActionRefused(gettext("Choose files first."))
    return [unsent.upload(request.user, place, read_upload(each)) for each in uploads]


def _refuse(request: HttpRequest, row: UnsentFile, refusal: ActionRefused) -> HttpResponse:
    return _refused(request, row.place, refusal)


def _refused(request: HttpRequest, place: str, refusal: ActionRefused) -> HttpResponse:
    if not _is_from_script(request):
        return _back(request, place, str(refusal))
    plain = "text/plain; charset=utf-8"
    return HttpResponse(str(refusal), status=refusal.status, content_type=plain)


@login_required
@require_GET
def chip(request: HttpRequest, place: str, public_id: UUID) -> HttpResponse:
    """The chip again, when its document has been read; nothing until then."""
    row = access.get_unsent_file(request.user, place, public_id)
    return HttpResponse(status=204) if _chip(row).is_reading else _chip_or_page(request, row)


@post_action(access.get_unsent_file, _refuse, methods=("GET", "HEAD", "POST"))
def file(request: HttpRequest, row: UnsentFile) -> HttpResponse:
    """The file as the model will get it, and the choice of its pages."""
    if request.method != "POST":
        return _file_page(request, row)
    use = request.POST.get("use", "")
    if use not in FileUse.values:
        raise ActionRefused(gettext("Choose how the model gets this file."))
    unsent.choose(row, pages=request.POST.get("pages", ""), use=use)
    return _chip_or_page(request, row)


def _file_page(request: HttpRequest, row: UnsentFile) -> HttpResponse:
    """The content of the dialog, or a page without scripts. While somebody types pages, only what is shown below
    them."""
    document = document_of(row.file)
    pages, wrong = request.GET.get("pages", row.pages), ""
    try:
        pages = unsent.normal_pages(document, pages)
    except ActionRefused as error:
        pages, wrong = row.pages, str(error)
    context: dict[str, Any] = {
        "chip": _chip(row),
        "place": row.place,
        "wrong": wrong,
        "facts": facts_of(row.file, document, pages, characters_of(document, pages)),
    }
    if document is not None and document.is_readable and not wrong:
        context |= code_of(text_of(document, row.file.name, pages), "")
        context |= {"shown": count(context["shown"]), "total": count(context["total"])}
    if not _is_from_script(request):
        return render(request, "files/unsent.html", context)
    is_typing = "pages" in request.GET
    return render(request, f"files/_unsent{'_text' if is_typing else ''}.html", context)


@post_action(access.get_unsent_file, _refuse)
def read_again(request: HttpRequest, row: UnsentFile) -> HttpResponse:
    """Has a refused document read again: the server may have been the reason."""
    unsent.read_again(request.user, row)
    return _chip_or_page(request, row)


@post_action(access.get_unsent_file, _refuse)
def remove(request: HttpRequest, row: UnsentFile) -> HttpResponse:
    unsent.remove(row)
    return HttpResponse(status=204) if _is_from_script(request) else _back(request, row.place)


def _chip(row: UnsentFile) -> Chip:
    return unsent_chip(row, document_of(row.file))


def _chip_or_page(request: HttpRequest, row: UnsentFile) -> HttpResponse:
    if not _is_from_script(request):
        return _back(request, row.place)
    return render(request, "files/_chip.html", {"chip": _chip(row), "place": row.place})


def _is_from_script(request: HttpRequest) -> bool:
    return request.headers.get("X-Requested-With") == "XMLHttpRequest"


def _back(request: HttpRequest, place: str, refusal: str = "") -> HttpResponse:
    """To the page with the message, for browsers without scripts."""
    if refusal:
        messages.error(request, refusal)
    if place == access.NEW:
        return redirect("home")
    if place.startswith(access.NEW_IN_PROJECT):
        project = place.removeprefix(access.NEW_IN_PROJECT)
        return redirect(f"{reverse('home')}?project={project}")
    return redirect("conversation", public_id=UUID(place))
