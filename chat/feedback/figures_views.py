"""The administration's page with figures of feedback, and its export."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from chat.access import NOT_HERE
from chat.core.errors import ActionRefused
from chat.feedback.export import may_export, start_export
from chat.feedback.figures import PERIODS, Scope, by_model, by_preset, total
from chat.feedback.forms import ExportForm, ScopeForm
from chat.models import Team, User
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import administrators_only
from chat.web.files import POLICY


@administrators_only
@require_safe
def figures(request: HttpRequest) -> HttpResponse:
    """Ratings and choices by model and by preset, of a period and of one team or all."""
    return _page(request, ScopeForm(request.GET).scope(), ExportForm())


@confirmed_recently(gives_file=True)
@administrators_only
@require_POST
def export(request: HttpRequest) -> HttpResponseBase:
    """The download, after an administrator gave a reason."""
    chosen = ScopeForm(request.POST)
    if not chosen.is_valid():
        # The team was deleted meanwhile. All teams would be more than was meant.
        raise Http404(NOT_HERE)
    scope, form = chosen.scope(), ExportForm(request.POST)
    if not form.is_valid():
        return _page(request, scope, form, status=422)
    try:
        made = start_export(
            cast(User, request.user),
            scope,
            reason=form.cleaned_data["reason"],
            with_conversations=form.cleaned_data["with_conversations"],
        )
    except ActionRefused as refusal:
        form.add_error(None, str(refusal))
        return _page(request, scope, form, status=refusal.status)
    response = StreamingHttpResponse(made, content_type="application/jsonl")
    name = f"tributary-feedback-{timezone.localdate():%Y-%m-%d}.jsonl"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _page(
    request: HttpRequest, scope: Scope, form: ExportForm, *, status: int = 200
) -> HttpResponse:
    models = by_model(scope)
    context = {
        **admin.site.each_context(request),
        "title": gettext("Feedback"),
        "scope": scope,
        "periods": PERIODS,
        "teams": Team.objects.order_by("name", "pk"),
        "models": models,
        "presets": by_preset(scope),
        "total": total(models),
        "form": form,
        "policy": settings.FEEDBACK_EXPORT,
        "may_export": may_export(),
        "may_export_conversations": may_export(with_conversations=True),
    }
    return render(request, "feedback/figures.html", context, status=status)
