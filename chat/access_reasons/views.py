"""The pages that ask an administrator for a reason, and then lead to what it was asked for."""

from __future__ import annotations

from urllib.parse import urlsplit
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.access_reasons import actions
from chat.access_reasons.forms import ReasonForm
from chat.models import Conversation
from chat.web.admin import searched_words
from chat.web.decorators import administrators_only
from chat.web.responses import form_page


@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def opening(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Asks why a conversation is to be opened, without its title."""
    conversation = access.get_conversation_to_open(request.user, public_id)
    target = _target(request) or reverse("admin:chat_conversation_change", args=[conversation.pk])
    form = ReasonForm(request.POST or None)
    if access.reading_of(request.user, conversation) is None:
        if not form.is_valid():
            title = gettext("Open this conversation?")
            return _ask(request, form, title, conversation=conversation, target=target)
        actions.open_conversation(request.user, conversation, form.cleaned_data["reason"])
    return redirect(target)


@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def searching(request: HttpRequest) -> HttpResponse:
    """Asks why all texts and titles are to be searched for the words in the address that it leads to."""
    target = _target(request) or reverse("admin:chat_conversation_changelist")
    words = searched_words(QueryDict(urlsplit(target).query).get(SEARCH_VAR, ""))
    form = ReasonForm(request.POST or None)
    if words and not access.may_search(request.user, words):
        if not form.is_valid():
            title = gettext("Search everyone’s conversations?")
            return _ask(request, form, title, words=words, target=target)
        actions.allow_search(request.user, words, form.cleaned_data["reason"])
    return redirect(target)


def _target(request: HttpRequest) -> str:
    """The page of this site for which the reason is; empty without a valid one."""
    target = request.POST.get("next") or request.GET.get("next", "")
    return target if url_has_allowed_host_and_scheme(target, allowed_hosts=None) else ""


def _ask(request: HttpRequest, form: ReasonForm, title: str, **context: object) -> HttpResponse:
    shown = {
        **admin.site.each_context(request),
        "opts": Conversation._meta,
        "list_name": capfirst(Conversation._meta.verbose_name_plural),
        "title": title,
        **context,
    }
    return form_page(request, "access_reasons/ask.html", form, **shown)
