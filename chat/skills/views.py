"""The library of skills, their import with its preview, and the pages of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import (
    require_GET,
    require_http_methods,
    require_POST,
    require_safe,
)

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Project, Skill, SkillUpload, SkillVersion, Team, User
from chat.rendering.figures import size
from chat.skills import actions
from chat.skills.archive import Contents, as_zip, read_upload
from chat.skills.forms import ImportForm, TextForm, UploadForm
from chat.skills.functions import as_text, file_body
from chat.skills.manifest import FILE_NAME
from chat.skills.shown import ShownSkill, is_script, shown_import, shown_version, text_of
from chat.web.decorators import login_required, post_action, refuse_with_message
from chat.web.files import archive_response, code_of, language_of
from chat.web.places import ONLY_ME, places_of
from chat.web.versions import known_version, posted_version, version_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillGroup:
    """The skills of a place, or of the reader (``place`` is ``None``)."""

    place: Team | Project | None
    versions: Sequence[SkillVersion]


# --- the library ----------------------------------------------------------------------------------


@login_required
@require_GET
def skills(request: HttpRequest) -> HttpResponse:
    rows = list(access.newest_skill_versions(access.visible_skills(request.user)))
    groups = [
        SkillGroup(
            place=place,
            versions=[row for row in rows if (row.skill.team or row.skill.project) == place],
        )
        for place in places_of(row.skill for row in rows)
    ]
    context = {"groups": [group for group in groups if group.versions]}
    return render(request, "skills/skills.html", context)


# --- import ---------------------------------------------------------------------------------------


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    is_post = request.method == "POST"
    form = UploadForm(request.POST if is_post else None, request.FILES if is_post else None)
    if form.is_valid():
        try:
            actions.store_upload(request.user, form.cleaned_data["file"].name, form.body())
        except ActionRefused as refusal:
            form.add_error("file", str(refusal))
        else:
            return redirect("skill_preview")
    status = 422 if form.is_bound else 200
    return render(request, "skills/import.html", {"form": form}, status=status)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preview(request: HttpRequest) -> HttpResponse:
    """The skills of the upload, before anything of them is stored."""
    user = request.user
    kept = SkillUpload.objects.filter(user=user).first()
    if kept is None:
        return redirect("skill_import")
    try:
        contents = read_upload(bytes(kept.body))
    except ActionRefused as refusal:
        # The upload was read when it came, perhaps by another version of the program.
        actions.cancel_upload(user)
        messages.error(request, str(refusal))
        return redirect("skill_import")
    form = ImportForm(
        request.POST or None,
        names=[each.manifest.name for each in contents.skills],
        teams=list(access.writable_teams(user)),
        projects=list(access.writable_projects(user)),
    )
    if form.is_valid():
        chosen = form.cleaned_data["skills"]
        found = [each for each in contents.skills if each.manifest.name in chosen]
        try:
            stored = actions.import_skills(user, form.cleaned_data["place"], found)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            return _imported(request, stored)
    context = {
        "form": form,
        "upload": kept,
        "size": size(len(kept.body)),
        "skills": _previewed(user, contents, form["skills"].value() or ()),
        "left_out": contents.left_out,
    }
    status = 422 if form.is_bound else 200
    return render(request, "skills/preview.html", context, status=status)


def _imported(request: HttpRequest, stored: Sequence[Skill]) -> HttpResponse:
    words = ngettext("%(count)d skill imported", "%(count)d skills imported", len(stored))
    messages.success(request, words % {"count": len(stored)})
    if len(stored) == 1:
        return redirect("skill", public_id=stored[0].public_id)
    return redirect("skills")


def _previewed(user: User, contents: Contents, chosen: Sequence[str]) -> list[ShownSkill]:
    names = [each.manifest.name for each in contents.skills]
    known = access.editable_skills(user).filter(name__in=names).select_related("team", "project")
    places: dict[str, list[str]] = {}
    for each in known:
        places.setdefault(each.name, []).append(str(each.team or each.project or ONLY_ME))
    return [
        shown_import(
            each,
            places.get(each.manifest.name, ()),
            is_chosen=each.manifest.name in chosen,
        )
        for each in contents.skills
    ]


@login_required
@require_POST
def cancel(request: HttpRequest) -> HttpResponse:
    actions.cancel_upload(request.user)
    return redirect("skills")


# --- one skill ------------------------------------------------------------------------------------


@login_required
@require_GET
def skill(request: HttpRequest, public_id: UUID) -> HttpResponse:
    version = _newest(access.get_skill(request.user, public_id))
    context = {
        "skill": version.skill,
        "version": version,
        "shown": shown_version(version),
        "may_edit": access.may_edit_skill(request.user, version.skill),
    }
    return render(request, "skills/skill.html", context)


def _newest(skill: Skill) -> SkillVersion:
    version = access.newest_skill_versions(Skill.objects.filter(pk=skill.pk)).first()
    if version is None:
        raise Http404(access.NOT_HERE)
    return version


@login_required
@require_GET
def file(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """One of the files, as source code. It is named in the query, as its path may have any letters."""
    version = _newest(access.get_skill(request.user, public_id))
    path = request.GET.get("path", FILE_NAME)
    entry = next((each for each in version.files if each["path"] == path), None)
    if entry is None and path != FILE_NAME:
        raise Http404(access.NOT_HERE)
    body = version.text.encode() if entry is None else file_body(entry["sha256"])
    text = as_text(body)
    context = {
        "skill": version.skill,
        "path": path,
        "size": size(len(body)),
        "is_script": is_script(path),
        "is_text": text is not None,
        **code_of(text or "", language_of(PurePosixPath(path).name, "")),
    }
    return render(request, "skills/file.html", context)


@login_required
@require_safe
def download(request: HttpRequest, public_id: UUID) -> HttpResponse:
    version = _newest(access.get_skill(request.user, public_id))
    files = {each["path"]: file_body(each["sha256"]) for each in version.files}
    body = as_zip(version.skill.name, {FILE_NAME: version.text.encode(), **files})
    return archive_response(body, f"{version.skill.name}.zip")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, public_id: UUID) -> HttpResponse:
    shown = access.get_editable_skill(request.user, public_id)
    version = _newest(shown)
    form = TextForm(request.POST or None, initial={"text": version.text})
    if form.is_valid():
        try:
            actions.change_text(
                request.user,
                shown,
                known=known_version(request),
                text=form.cleaned_data["text"],
            )
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, gettext("Saved"))
            return redirect("skill", public_id=public_id)
    context = {"skill": shown, "version": version, "form": form}
    return render(request, "skills/edit.html", context, status=422 if form.is_bound else 200)


@login_required
@require_GET
def versions(request: HttpRequest, public_id: UUID) -> HttpResponse:
    shown = access.get_skill(request.user, public_id)
    context = {
        "skill": shown,
        "lines": version_lines(shown.versions.all(), text_of),
        "may_edit": access.may_edit_skill(request.user, shown),
    }
    return render(request, "skills/versions.html", context)


@post_action(access.get_editable_skill, refuse_with_message("skills"))
def use_version(request: HttpRequest, skill: Skill) -> HttpResponse:
    actions.use_version(request.user, skill, posted_version(request, skill.versions))
    messages.success(request, gettext("Saved"))
    return redirect("skill", public_id=skill.public_id)


@post_action(access.get_editable_skill, refuse_with_message("skills"))
def delete(request: HttpRequest, skill: Skill) -> HttpResponse:
    actions.delete_skill(request.user, skill)
    messages.success(request, gettext("Skill deleted"))
    return redirect("skills")
