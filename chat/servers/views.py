"""Settings → Servers: the list, the pages of a server, the connection test. Administrators only."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.core.text import as_uuid
from chat.dialects import DIALECTS
from chat.models import Upstream
from chat.runs.seen_events import record_seen
from chat.servers.actions import servers as actions
from chat.servers.calls import ConnectionReport, ask_for_models, run_probe
from chat.servers.discovery import find_servers
from chat.servers.forms import UpstreamForm
from chat.servers.kinds import KINDS, ServerKind
from chat.servers.server_page import (
    ServerPage,
    dialect_label,
    matching_models,
    present,
    present_all,
    seen_kinds,
)
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import administrators_only, post_action, refuse_with_message
from chat.web.responses import form_page

# Limits of a search for models, and of an address to fill in.
QUERY_LENGTH = 200
ADDRESS_LENGTH = 500
# The tabs of a server, with the names of their routes.
TABS = {
    "overview": (gettext_lazy("Overview"), "server"),
    "models": (gettext_lazy("Models"), "server_models"),
    "access": (gettext_lazy("Access"), "server_access"),
    "settings": (gettext_lazy("Settings"), "server_settings"),
    "diagnostics": (gettext_lazy("Diagnostics"), "server_diagnostics"),
}

# --- pages -------------------------------------------------------------------------


@administrators_only
@require_GET
def server_list(request: HttpRequest) -> HttpResponse:
    servers = present_all(Upstream.objects.order_by("is_demo", "name"))
    has_own = any(_works(server) for server in servers if not server.is_demo)
    has_demos = any(server.is_demo and server.is_enabled for server in servers)
    page = {"servers": servers, "may_hide_demos": has_own and has_demos}
    return render(request, "servers/list.html", page)


@confirmed_recently()
@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
@sensitive_variables("form")
def server_add(request: HttpRequest) -> HttpResponse:
    """The kinds of servers, then the form of the chosen one. The server is tested and then added;
    one whose test failed, or that was not tested, is added disabled if the person says so."""
    if request.method == "GET" and "kind" not in request.GET:
        return _kinds(request)
    kind = KINDS.get(request.GET.get("kind", ""))
    if "choose_dialect" in request.POST:
        page = {"form": _form_of_dialect(request, kind=kind), "kind": kind}
        return render(request, "servers/add.html", page)
    address = request.GET.get("address", "")[:ADDRESS_LENGTH]
    posted = _with_correction(request.POST) if request.method == "POST" else None
    form = UpstreamForm(posted, kind=kind, address=address)
    report = None
    if form.is_valid():
        settings = form.settings()
        if "untested" not in request.POST:
            report = run_probe(actions.draft(settings))
            if report.own_limit and "concurrency_limit" not in form.changed_data:
                settings = replace(settings, concurrency_limit=report.own_limit)
        try:
            if report is None or report.has_passed:
                return _added(request, settings, report)
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
    if report and not report.has_passed:
        form.show_test(report.steps)
    template = "servers/_add_refused.html" if request.htmx else "servers/add.html"
    return form_page(request, template, form, kind=kind, report=report)


@administrators_only
@require_POST
def server_discover(request: HttpRequest) -> HttpResponse:
    """The kinds of servers, and those that answer on this machine."""
    return _kinds(request, found=find_servers())


@administrators_only
@require_POST
def server_connect(request: HttpRequest) -> HttpResponse:
    """Tests a server that was found, and adds it. If the test fails, the form says why when it is sent."""
    kind = KINDS.get(request.POST.get("kind", ""))
    address = request.POST.get("address", "")[:ADDRESS_LENGTH]
    try:
        settings = actions.settings_of_kind(kind, address)
        report = run_probe(actions.draft(settings))
        failed = report.failed_step
        if failed is None:
            limit = report.own_limit or settings.concurrency_limit
            settings = replace(settings, concurrency_limit=limit)
            upstream = actions.add(request.user, settings, is_enabled=True)
            _keep_report(request, upstream, report)
            messages.success(request, gettext("%(name)s was added.") % {"name": upstream.name})
            return _go(request, reverse("home", query={"server": upstream.public_id.hex}))
        messages.error(request, str(failed["text"]))
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
    query = {"kind": kind.id if kind else "other", "address": address}
    return _go(request, reverse("server_add", query=query))


def _kinds(request: HttpRequest, **context: object) -> HttpResponse:
    tiles = [{"kind": kind, "api": dialect_label(kind.dialect)} for kind in KINDS.values()]
    return render(request, "servers/kinds.html", {"tiles": tiles, **context})


@administrators_only
@require_GET
def server_overview(request: HttpRequest, public_id: UUID) -> HttpResponse:
    return tab_page(request, "overview", access.get_upstream(request.user, public_id))


@administrators_only
@require_http_methods(["GET", "POST"])
def server_models(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The models. ``POST`` requests the server's list and stores it."""
    upstream = access.get_upstream(request.user, public_id)
    if request.method == "GET":
        query = request.GET.get("q", "")[:QUERY_LENGTH].strip()
        lines = matching_models(upstream, query)
        return tab_page(request, "models", upstream, lines=lines, query=query)
    listing = ask_for_models(upstream)
    error = listing.error
    if not error and not actions.record_models(request.user, upstream, listing.models):
        error = gettext("The server’s settings changed in the meantime. Load its models again.")
    if error:
        messages.error(request, error)
    return redirect("server_models", public_id)


@confirmed_recently()
@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
@sensitive_variables("form")
def server_settings(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    if "choose_dialect" in request.POST:
        return tab_page(request, "settings", upstream, form=_form_of_dialect(request, upstream))
    posted = _with_correction(request.POST) if request.method == "POST" else None
    form = UpstreamForm(posted, upstream=upstream)
    if form.is_valid():
        try:
            change = actions.change(request.user, upstream, form.settings())
        except ActionRefused as refusal:
            form.add_error(None, str(refusal))
        else:
            _say_saved(request, change)
            return redirect("server_settings", upstream.public_id)
    return tab_page(request, "settings", upstream, status=422 if form.is_bound else 200, form=form)


@administrators_only
@require_GET
def server_diagnostics(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    return tab_page(
        request, "diagnostics", upstream, steps=upstream.probe, seen=seen_kinds(upstream)
    )


@sensitive_post_parameters()
@administrators_only
@require_http_methods(["GET", "POST"])
def server_dialect(request: HttpRequest) -> HttpResponse:
    """The part of the form that depends on the dialect, when another one is picked. The current
    form is posted along (it may contain a key), so fields that both dialects have keep their
    values."""
    form = _form_of_dialect(request, _edited(request))
    return render(request, "servers/_dialect.html", {"form": form})


@administrators_only
@require_http_methods(["GET", "POST"])
def server_delete(request: HttpRequest, public_id: UUID) -> HttpResponse:
    upstream = access.get_upstream(request.user, public_id)
    refusal = ""
    if request.method == "POST":
        try:
            actions.delete(request.user, upstream)
        except ActionRefused as refused:
            refusal = str(refused)
        else:
            text = gettext("%(name)s was deleted. Its answers are kept.")
            messages.success(request, text % {"name": upstream.name})
            return redirect("servers")
    page = {"upstream": upstream, "refusal": refusal, "runs": upstream.runs.count()}
    return render(request, "servers/delete.html", page, status=409 if refusal else 200)


# --- buttons -----------------------------------------------------------------------
# Each leads back to the page on which it was pressed. With scripts, that page replaces the shown one.

_button = post_action(access.get_upstream, refuse_with_message("servers"))


@administrators_only
@_button
def server_switch(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    is_enabled = request.POST.get("is_enabled") == "true"
    actions.set_enabled(request.user, upstream, is_enabled=is_enabled)
    return _back(request, upstream)


@administrators_only
@require_POST
def server_hide_demos(request: HttpRequest) -> HttpResponse:
    for demo in Upstream.objects.filter(is_demo=True):
        actions.set_enabled(request.user, demo, is_enabled=False)
    messages.success(
        request, gettext("The demo servers are hidden. You can enable them here again.")
    )
    return redirect("servers")


@administrators_only
@_button
def server_drain(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    """Stops starting runs at this server, or resumes."""
    is_draining = request.POST.get("is_draining") == "true"
    actions.set_draining(request.user, upstream, is_draining=is_draining)
    return _back(request, upstream)


@administrators_only
@_button
def server_model_switch(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    """Enables or disables the model that the pressed button names; all of them without a name."""
    is_enabled = "enable" in request.POST
    name = request.POST.get("enable" if is_enabled else "disable", "")
    actions.set_models_enabled(request.user, upstream, is_enabled=is_enabled, model=name or None)
    query = request.POST.get("q", "")[:QUERY_LENGTH]
    return redirect(
        reverse("server_models", args=[upstream.public_id], query={"q": query} if query else None)
    )


@administrators_only
@require_GET
def server_states(request: HttpRequest) -> HttpResponse:
    """The current load of every server for the list, or of one for its page."""
    one = _edited(request)
    servers = present_all([one] if one else Upstream.objects.order_by("pk"), with_answers=False)
    page = {"servers": servers, "tab": "overview" if one else ""}
    return render(request, "servers/_states.html", page)


@administrators_only
@_button
def server_test(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    """Runs the connection test and leads to its report; first moves the server to the address that the
    last test has found, if the button for it was pressed."""
    if "use_address" in request.POST:
        change = actions.take_correction(request.user, upstream, request.POST["use_address"])
        if change is None:
            messages.error(
                request, gettext("This suggestion is out of date. Test the connection again.")
            )
            return _go(request, reverse("server_diagnostics", args=[upstream.public_id]))
        _say_saved(request, change)
        upstream = change.upstream
    report = run_probe(upstream, model=request.POST.get("model", ""))
    if not _keep_report(request, upstream, report):
        messages.warning(
            request,
            gettext(
                "The settings changed during the test, so its result wasn’t saved. Test again."
            ),
        )
    return _go(request, reverse("server_diagnostics", args=[upstream.public_id]))


@administrators_only
@_button
def server_advice(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    """Applies one advice of the last test, and shows the report with the new settings."""
    taken = actions.take_advice(request.user, upstream, request.POST.get("advice", ""))
    if taken:
        text = gettext("Applied: %(setting)s. Test the connection again.")
        messages.success(request, text % {"setting": taken})
    else:
        messages.error(
            request, gettext("This suggestion is out of date. Test the connection again.")
        )
    return redirect("server_diagnostics", upstream.public_id)


def _works(server: ServerPage) -> bool:
    has_answered = server.answered_at is not None and not server.has_last_answer_failed
    return server.is_enabled and (server.probe_state == "ok" or has_answered)


# --- steps ---------------------------------------------------------------------------


def _with_correction(posted: QueryDict) -> QueryDict:
    """The posted values, with the address of the button if that was pressed."""
    if "use_address" not in posted:
        return posted
    corrected = posted.copy()
    corrected["base_url"] = posted["use_address"]
    return corrected


def _edited(request: HttpRequest) -> Upstream | None:
    """The server that the address names, or ``None``."""
    public_id = as_uuid(request.GET.get("server"))
    return access.get_upstream(request.user, public_id) if public_id else None


@sensitive_variables("typed")
def _form_of_dialect(
    request: HttpRequest, upstream: Upstream | None = None, *, kind: ServerKind | None = None
) -> UpstreamForm:
    """The form for the API type that was picked, with what was typed so far."""
    typed = request.POST if request.method == "POST" else request.GET
    name = typed.get("dialect", "")
    if name not in DIALECTS:
        raise Http404(access.NOT_HERE)
    return UpstreamForm(upstream=upstream, dialect=name, typed=typed, kind=kind)


def tab_page(
    request: HttpRequest, tab: str, upstream: Upstream, *, status: int = 200, **context: object
) -> HttpResponse:
    tabs = [
        {
            "label": label,
            "url": reverse(route, args=[upstream.public_id]),
            "is_current": name == tab,
        }
        for name, (label, route) in TABS.items()
    ]
    page = {"server": present(upstream), "tab": tab, "tabs": tabs, **context}
    return render(request, f"servers/{tab}.html", page, status=status)


def _back(request: HttpRequest, upstream: Upstream) -> HttpResponse:
    tab = request.POST.get("from", "")
    return redirect(TABS[tab][1], upstream.public_id) if tab in TABS else redirect("servers")


def _go(request: HttpRequest, address: str) -> HttpResponse:
    """Leads to another page, also the browser of a form that htmx has sent."""
    if request.htmx:
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


def _added(
    request: HttpRequest, settings: actions.ServerSettings, report: ConnectionReport | None
) -> HttpResponse:
    """Stores the server with the report of its test. Raises ``ActionRefused``."""
    upstream = actions.add(request.user, settings, is_enabled=report is not None)
    if report:
        _keep_report(request, upstream, report)
        messages.success(request, gettext("%(name)s was added.") % {"name": upstream.name})
        if report.own_limit == upstream.concurrency_limit:
            text = gettext(
                "It gives %(count)s answers at a time, the limit that it reports itself."
            )
            messages.info(request, text % {"count": upstream.concurrency_limit})
    else:
        text = gettext("%(name)s was added and is disabled. Test its connection, then enable it.")
        messages.success(request, text % {"name": upstream.name})
    return _go(request, reverse("server", args=[upstream.public_id]))


def _keep_report(request: HttpRequest, upstream: Upstream, report: ConnectionReport) -> bool:
    """Returns whether the result was stored, which it is not if the settings changed meanwhile."""
    is_current = actions.record_probe(request.user, upstream, report.steps)
    if is_current and report.models:
        # The models of a server that passed its test can be chosen at once, without another button.
        actions.record_models(request.user, upstream, report.models)
    record_seen(upstream.pk, report.seen)
    return is_current


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
