"""The page with the feedback on an answer, the form of one's own rating, and its withdrawal."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext

from chat import access
from chat.conversations.page import ACCEPTED
from chat.core.errors import ActionRefused, InvalidForm
from chat.feedback import actions
from chat.feedback.forms import FeedbackForm, form_of
from chat.models import Feedback, FeedbackKind, Message, Role, User
from chat.web.decorators import post_action
from chat.web.responses import beside_room, refusal_patch

# The element in which the form shows why it was refused. The form can be in the panel and above the page.
PLACES = ("rating-note", "rating-note-above")


def _answer(user: User, public_id: UUID) -> Message:
    """An answer, for everybody who may read its conversation: they may also rate it. Raises ``Http404``."""
    message = access.get_message(user, public_id)
    if message.role != Role.ASSISTANT:
        raise Http404(access.NOT_HERE)
    return message


def _refuse(request: HttpRequest, answer: Message, refusal: ActionRefused) -> HttpResponse:
    """The refusal beside the form, as a sentence for a click on a thumb, and without scripts on the page with what was
    entered."""
    if not request.htmx:
        form = FeedbackForm(request.POST)
        return _page(request, answer, form=form, refusal=str(refusal), status=refusal.status)
    place = request.POST.get("place", "")
    if place in PLACES:
        return refusal_patch(request, str(refusal), status=refusal.status, place=place)
    return HttpResponse(
        str(refusal), status=refusal.status, content_type="text/plain; charset=utf-8"
    )


@post_action(_answer, _refuse, methods=("GET", "HEAD", "POST"))
def on_answer(request: HttpRequest, answer: Message) -> HttpResponse:
    """The feedback on an answer, with the form; for scripts the list alone (``?part=list``), or the form alone.
    POST stores one's own rating."""
    user = cast(User, request.user)
    if request.method != "POST":
        if request.htmx and "X-Panel" not in request.headers:
            part = "_list" if request.GET.get("part") == "list" else "_form"
            return render(request, f"feedback/{part}.html", _context(user, answer, is_above=True))
        return _page(request, answer)
    form = FeedbackForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    if not form.is_brief:
        actions.rate(user, answer, **form.given)
        return _done(request, answer)
    rating = _rating_of(user, answer)
    if rating is None or rating.value != form.cleaned_data["value"]:
        actions.rate(user, answer, **form.given)
    if not request.htmx:
        return _done(request, answer)
    return render(request, "feedback/_form.html", _context(user, answer, is_above=True))


@post_action(_answer, _refuse)
def withdraw(request: HttpRequest, answer: Message) -> HttpResponse:
    actions.withdraw(cast(User, request.user), answer)
    return _done(request, answer)


def _rating_with_note(user: User, public_id: UUID, person: UUID) -> Feedback:
    """A rating whose note this user may remove: their own, or of somebody else for managers of the conversation. Raises
    ``Http404`` and ``PermissionDenied``."""
    answer = _answer(user, public_id)
    rows = Feedback.objects.select_related("person").filter(kind=FeedbackKind.RATING)
    rating = rows.filter(answer=answer, person__public_id=person).first()
    if rating is None:
        raise Http404(access.NOT_HERE)
    if not access.may_remove(user, answer.conversation, author_pk=rating.person_id):
        raise PermissionDenied(
            gettext("Only its author and managers of this conversation can remove this note.")
        )
    rating.answer = answer
    return rating


def _refuse_removal(request: HttpRequest, rating: Feedback, refusal: ActionRefused) -> HttpResponse:
    return _refuse(request, rating.answer, refusal)


@post_action(_rating_with_note, _refuse_removal)
def remove_note(request: HttpRequest, rating: Feedback) -> HttpResponse:
    actions.remove_note(cast(User, request.user), rating)
    return _done(request, rating.answer)


def _done(request: HttpRequest, answer: Message) -> HttpResponse:
    """Scripts are told that it is stored; the page shows it by its live connection."""
    if request.htmx:
        return HttpResponse(headers={"HX-Trigger": ACCEPTED})
    return redirect("message_feedback", public_id=answer.public_id)


def _rating_of(user: User, answer: Message) -> Feedback | None:
    rows = Feedback.objects.filter(answer=answer, person=user, kind=FeedbackKind.RATING)
    return rows.first()


def _context(user: User, answer: Message, *, is_above: bool = False) -> dict[str, object]:
    rating = _rating_of(user, answer)
    return {
        "answer": answer,
        "conversation": answer.conversation,
        "rating": rating,
        "form": form_of(rating),
        # The ids of a form that floats above the page differ from those of one in the panel.
        "is_above": is_above,
        "place": PLACES[is_above],
        "may_remove_notes": access.may_manage(user, answer.conversation),
        "rows": answer.feedback.select_related("person").order_by("-updated_at", "-pk"),
    }


def _page(
    request: HttpRequest,
    answer: Message,
    *,
    form: FeedbackForm | None = None,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    context = _context(cast(User, request.user), answer)
    context |= {"refusal": refusal, **({"form": form} if form else {})}
    response = beside_room(request, "feedback/feedback.html", answer.conversation, context)
    response.status_code = status
    return response
