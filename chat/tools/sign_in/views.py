"""Views of accounts at tool servers: the person's list, connecting, coming back, disconnecting."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import cache_control
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_safe

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Question, ToolAccount, ToolCall, ToolServer, ToolSignIn
from chat.tools.sign_in import actions
from chat.tools.sign_in.account_list import account_lines
from chat.tools.sign_in.clients import metadata_document, redirect_uri
from chat.tools.sign_in.forms import ClientForm
from chat.tools.sign_in.waiting_calls import go_on_connected
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required, post_action, refuse_with_message


@login_required
@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    """The servers that the person can sign in at, and the accounts."""
    return render(request, "tools/accounts.html", {"lines": account_lines(request.user)})


@require_safe
@cache_control(public=True, max_age=3600)
def client_metadata(request: HttpRequest) -> HttpResponse:
    """The client ID metadata document, which authorization servers fetch. It is the same for everybody."""
    return JsonResponse(metadata_document())


# --- connecting -----------------------------------------------------------------------------------


@confirmed_recently()
@post_action(access.get_sign_in_server, refuse_with_message("tool_accounts"))
def connect(request: HttpRequest, server: ToolServer) -> HttpResponse:
    return _leave(
        request, server, actions.begin_sign_in(request.user, server), reverse("tool_accounts")
    )


def _back_to_card(request: HttpRequest, call: ToolCall, refusal: ActionRefused) -> HttpResponse:
    messages.error(request, str(refusal))
    return redirect(_card(call.question))


@confirmed_recently()
@post_action(access.get_own_tool_call, _back_to_card)
def connect_from_card(request: HttpRequest, call: ToolCall) -> HttpResponse:
    """For a guest, too, whose own call it is."""
    assert call.tool is not None
    server = call.tool.server
    if server is None:
        raise ActionRefused(gettext(actions.NOT_PERSONAL))
    page = actions.begin_sign_in(request.user, server, question=call.question)
    return _leave(request, server, page, _card(call.question))


def _back_to_server(
    request: HttpRequest, server: ToolServer, refusal: ActionRefused
) -> HttpResponse:
    messages.error(request, str(refusal))
    return redirect("tool_server", server.public_id)


@confirmed_recently()
@post_action(access.get_tool_server, _back_to_server)
def connect_for_listing(request: HttpRequest, server: ToolServer) -> HttpResponse:
    page = actions.begin_sign_in(request.user, server, is_for_listing=True)
    return _leave(request, server, page, reverse("tool_server", args=[server.public_id]))


def _leave(
    request: HttpRequest, server: ToolServer, page: actions.SignInPage, back: str
) -> HttpResponse:
    """A page with a link to the sign-in server: nobody is sent to an address of a stranger without seeing it."""
    context = {"server": server, "page": page, "back": back}
    return render(request, "tools/sign_in.html", context)


@login_required
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """The person comes back from the sign-in server."""
    answer = {name: request.GET[name] for name in ("code", "iss", "error") if name in request.GET}
    started = actions.take_sign_in(request.user, request.GET.get("state", ""))
    try:
        actions.finish(request.user, started, answer)
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
    else:
        if started.question is not None:
            go_on_connected(request.user, started.question)
        text = gettext("Your account at %(server)s is connected.")
        messages.success(request, text % {"server": started.server.name})
    return redirect(_return_address(started))


def _return_address(started: ToolSignIn) -> str:
    """Pages of ours only: where the sign-in began."""
    if started.question is not None:
        return _card(started.question)
    if started.is_for_listing:
        return reverse("tool_server", args=[started.server.public_id])
    return reverse("tool_accounts")


def _card(question: Question) -> str:
    conversation = question.conversation
    address = reverse("conversation", args=[conversation.public_id])
    return f"{address}#ask-{question.public_id.hex}"


# --- disconnecting, and the client id -------------------------------------------------------------


@post_action(access.get_tool_account, refuse_with_message("tool_accounts"))
def disconnect(request: HttpRequest, account: ToolAccount) -> HttpResponse:
    actions.disconnect(request.user, account)
    text = gettext("Your account at %(server)s is disconnected.")
    messages.success(request, text % {"server": account.server.name})
    return redirect("tool_accounts")


@sensitive_post_parameters("client_secret")
@confirmed_recently()
@post_action(access.get_tool_server, _back_to_server)
def enter_client_id(request: HttpRequest, server: ToolServer) -> HttpResponse:
    """First shows the authorization server that the tool server names; then stores a client id for it."""
    if "issuer" not in request.POST:
        issuer = actions.find_issuer(request.user, server)
        return _client_page(request, server, ClientForm(initial={"issuer": issuer}), issuer)
    form = ClientForm(request.POST)
    if not form.is_valid():
        raise ActionRefused(form.first_error())
    actions.enter_client_of(
        request.user,
        server,
        issuer=form.cleaned_data["issuer"],
        client_id=form.cleaned_data["client_id"],
        secret=form.cleaned_data["client_secret"],
    )
    messages.success(request, gettext("The client ID was saved."))
    return redirect("tool_server", server.public_id)


def _client_page(
    request: HttpRequest, server: ToolServer, form: ClientForm, issuer: str
) -> HttpResponse:
    context = {"server": server, "form": form, "issuer": issuer, "redirect_uri": redirect_uri()}
    return render(request, "tools/client_id.html", context)
