"""`post_action`: sign-in, method, access and refusals of views that change one record."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import RequestFactory

from chat.core.errors import ActionRefused, InvalidForm, StorageFull
from chat.models import User
from chat.web.decorators import post_action

KNOWN = uuid4()


def load(user: User, public_id: UUID) -> str:
    if public_id != KNOWN:
        raise Http404
    if user.name == "Vera":
        raise PermissionDenied
    return "record"


def refuse(request: HttpRequest, record: str, refusal: ActionRefused) -> HttpResponse:
    return HttpResponse(f"{record}: {refusal}", status=refusal.status)


@post_action(load, refuse)
def act(request: HttpRequest, record: str) -> HttpResponse:
    refusal = {"text": ActionRefused("No."), "form": InvalidForm("Bad."), "full": StorageFull()}
    if request.POST.get("fails"):
        raise refusal[request.POST["fails"]]
    return HttpResponse(f"{record} changed")


def ask(user: object, method: str = "post", public_id: UUID = KNOWN, **data: str) -> HttpResponse:
    request = getattr(RequestFactory(), method)("/x/", data)
    request.user = user
    request.htmx = False
    return act(request, public_id=public_id)


def test_view_gets_the_record() -> None:
    assert ask(User(name="Ann")).content == b"record changed"


@pytest.mark.parametrize(
    ("fails", "status", "text"),
    [("text", 409, b"record: No."), ("form", 422, b"record: Bad."), ("full", 507, b"record: S")],
)
def test_refusal_is_shown_with_its_status(fails: str, status: int, text: bytes) -> None:
    response = ask(User(name="Ann"), fails=fails)

    assert (response.status_code, response.content[: len(text)]) == (status, text)


def test_unknown_record_is_not_found() -> None:
    with pytest.raises(Http404):
        ask(User(name="Ann"), public_id=uuid4())


def test_forbidden_record_is_denied() -> None:
    with pytest.raises(PermissionDenied):
        ask(User(name="Vera"))


def test_get_is_not_allowed() -> None:
    assert ask(User(name="Ann"), method="get").status_code == 405


def test_stranger_is_asked_to_sign_in() -> None:
    assert ask(AnonymousUser()).status_code == 302
