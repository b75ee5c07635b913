"""The files that a project shares: adding and removing them."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core.errors import ActionRefused
from chat.files.actions import read_uploads
from chat.models import Project, StoredFile
from chat.projects.files import add_file, remove_file
from chat.web.decorators import post_action


def _back(
    request: HttpRequest, record: Project | StoredFile, refusal: ActionRefused | None = None
) -> HttpResponse:
    """To the page of a project's files, which shows a refusal as a message."""
    if refusal is not None:
        messages.error(request, str(refusal))
    project = record.project if isinstance(record, StoredFile) else record
    assert project is not None
    return redirect("project_instructions", public_id=project.public_id)


@post_action(partial(access.get_project, for_write=True), _back)
def add(request: HttpRequest, project: Project) -> HttpResponse:
    files = read_uploads(request.FILES.getlist("files"))
    if not files:
        raise ActionRefused(gettext("Choose files first."))
    for new in files:
        add_file(request.user, project, new)
    text = ngettext("%(count)d file added", "%(count)d files added", len(files))
    messages.success(request, text % {"count": len(files)})
    return _back(request, project)


@post_action(partial(access.get_shared_file, for_write=True), _back)
def remove(request: HttpRequest, file: StoredFile) -> HttpResponse:
    project = file.project
    assert project is not None
    remove_file(request.user, file)
    messages.success(request, gettext("%(name)s removed") % {"name": file.name})
    return _back(request, project)
