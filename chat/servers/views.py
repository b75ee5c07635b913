"""Settings → Servers: the list, the form, the connection test. Administrators only."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.dialects import DIALECTS
from chat.models import Upstream, User
from chat.runs.seen_events import record_seen
from chat.servers.actions import servers as actions
from chat.servers.calls import ask_for_models, run_probe
from chat.servers.forms import UpstreamForm
from chat.servers.server_page import present, present_all, seen_kinds
from chat.web.decorators import administrators_only

# --- pages -------------------------------------------------------------------------


@administrators_only
@require_GET
def server_list(request: HttpRequest) -> HttpResponse:
    upstreams = Upstream.objects.order_by("is_demo", "name")
    return render(request, "servers/list.html", {"servers": present_all(upstreams)})


@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
@sensitive_variables("form")
def server_add(request: HttpRequest) -> HttpResponse:
    form = UpstreamForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            upstream = actions.add(_person(request), form.settings())
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            text = gettext("%(name)s was added. Test its connection next.")
            messages.success(request, text % {"name": upstream.name})
            return redirect("server", upstream.public_id)
    return _form_page(request, form, None)


@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
@sensitive_variables("form")
def server_edit(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    form = UpstreamForm(request.POST if request.method == "POST" else None, upstream=upstream)
    if form.is_valid():
        try:
            change = actions.change(_person(request), upstream, form.settings())
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            _say_saved(request, change)
            return redirect("server", upstream.public_id)
    return _form_page(request, form, upstream)


@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
def server_dialect(request: HttpRequest) -> HttpResponse:
    """The part of the form that depends on the dialect, when another one is picked. The current
    form is posted along (it may contain a key), so fields that both dialects have keep their
    values."""
    typed = request.POST if request.method == "POST" else request.GET
    name = typed.get("dialect", "")
    if name not in DIALECTS:
        raise Http404(access.NOT_HERE)
    form = UpstreamForm(upstream=_edited(request), dialect=name, typed=typed)
    return render(request, "servers/_dialect.html", {"form": form})


@administrators_only
@require_http_methods(["GET", "POST"])
def server_delete(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    refusal = ""
    if request.method == "POST":
        try:
            actions.delete(_person(request), upstream)
        except ActionRefused as refused:
            refusal = str(refused)
        else:
            text = gettext("%(name)s was deleted. Its answers are kept.")
            messages.success(request, text % {"name": upstream.name})
            return redirect("servers")
    page = {"upstream": upstream, "refusal": refusal, "runs": upstream.runs.count()}
    return render(request, "servers/delete.html", page, status=409 if refusal else 200)


# --- buttons -----------------------------------------------------------------------


@administrators_only
@require_POST
def server_switch(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    is_enabled = request.POST.get("is_enabled") == "true"
    actions.set_enabled(_person(request), upstream, is_enabled=is_enabled)
    upstream.refresh_from_db()
    if request.htmx:
        return render(request, "servers/_row.html", {"server": present(upstream)})
    if request.POST.get("from") == "page":
        return redirect("server", public_id)
    return redirect("servers")


@administrators_only
@require_POST
def server_drain(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Stops starting runs at this server, or resumes. The response shows its state."""
    upstream = access.get_upstream(request.user, public_id)
    is_draining = request.POST.get("is_draining") == "true"
    actions.set_draining(_person(request), upstream, is_draining=is_draining)
    if request.htmx:
        upstream.refresh_from_db()
        return render(request, "servers/_state.html", {"server": present(upstream)})
    if request.POST.get("from") == "page":
        return redirect("server", public_id)
    return redirect("servers")


@administrators_only
@require_GET
def server_states(request: HttpRequest) -> HttpResponse:
    """The current state of every server, for pages that show it."""
    servers = present_all(Upstream.objects.order_by("pk"))
    return render(request, "servers/_states.html", {"servers": servers})


@administrators_only
@require_POST
def server_test(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Runs the connection test and shows its steps."""
    upstream = access.get_upstream(request.user, public_id)
    report = run_probe(upstream, model=request.POST.get("model", ""))
    kept = actions.record_probe(_person(request), upstream, report.steps)
    if kept and report.models:
        # The models of a server that passed its test can be chosen at once, without another button.
        actions.record_models(_person(request), upstream, report.models)
    record_seen(upstream.pk, report.seen)
    if not request.htmx:
        return redirect(reverse("server", args=[public_id]) + "#test")
    upstream.refresh_from_db()
    page = {
        "server": present(upstream),
        "steps": report.steps,
        "is_outdated": not kept,
        "seen": seen_kinds(upstream),
    }
    return render(request, "servers/_tested.html", page)


@administrators_only
@require_POST
def server_advice(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Applies one advice of the last test, and shows the page with the new settings."""
    upstream = access.get_upstream(request.user, public_id)
    taken = actions.take_advice(_person(request), upstream, request.POST.get("advice", ""))
    if taken:
        text = gettext("Applied: %(setting)s. Test the connection again.")
        messages.success(request, text % {"setting": taken})
    else:
        messages.error(
            request, gettext("This suggestion is out of date. Test the connection again.")
        )
    return redirect(reverse("server", args=[public_id]) + "#test")


@administrators_only
@require_POST
def server_models(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Requests the server's list of models and stores it."""
    upstream = access.get_upstream(request.user, public_id)
    listing = ask_for_models(upstream)
    error = listing.error
    if not error and not actions.record_models(_person(request), upstream, listing.models):
        error = gettext("The server’s settings changed in the meantime. Load its models again.")
    if not request.htmx:
        if error:
            messages.error(request, error)
        return redirect(reverse("server", args=[public_id]) + "#models")
    upstream.refresh_from_db()
    page = {"server": present(upstream), "error": error, "is_fresh": not error}
    return render(request, "servers/_models.html", page)


# --- steps ---------------------------------------------------------------------------


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _edited(request: HttpRequest) -> Upstream | None:
    """The server of this form, or ``None`` for a new one."""
    try:
        public_id = UUID(request.GET.get("server", ""))
    except ValueError:
        return None
    return access.get_upstream(request.user, public_id)


def _form_page(request: HttpRequest, form: UpstreamForm, upstream: Upstream | None) -> HttpResponse:
    page = {
        "form": form,
        "server": present(upstream) if upstream else None,
        "seen": seen_kinds(upstream) if upstream else None,
    }
    status = 422 if form.is_bound else 200
    return render(request, "servers/form.html", page, status=status)


def _say_saved(request: HttpRequest, change: actions.ServerChange) -> None:
    messages.success(request, gettext("%(name)s was saved.") % {"name": change.upstream.name})
    if change.key_was_dropped:
        messages.warning(
            request,
            gettext(
                "The stored API key was removed because it belongs to the previous address. "
                "Enter the key for the new one."
            ),
        )
    if change.options_were_dropped:
        messages.warning(
            request,
            gettext(
                "The secret options were removed because they belong to the previous address. "
                "Enter them again if the new server needs them."
            ),
        )
