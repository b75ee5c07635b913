"""Answers forms that come over a tab's websocket, with the views that answer them over HTTP.

The origin was checked when the websocket was opened, so that other sites can't post. The session is
read again with each form.
"""

from __future__ import annotations

from http.cookies import CookieError
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.exception import response_for_exception
from django.db import connection
from django.db.models import Exists
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, parse_cookie
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import resolve
from django.utils import timezone
from django.utils.datastructures import MultiValueDict
from django_htmx.middleware import HtmxDetails

from chat import access
from chat.core.errors import is_database_unavailable
from chat.core.prepared import Prepared
from chat.core.request_queue import Overloaded, request_queue
from chat.core.threads import DatabaseThreads
from chat.live.access_monitor import Identity
from chat.live.posts import Answer, BegunRun, Post, Respond, Visitor
from chat.models import Run, User
from chat.web.session_use import note_use
from chat.web.time_zone import person_time_zone
from chat.web.views import busy, unavailable

# Headers that a page may set.
HEADERS = ("HX-Request", "HX-Current-URL", "X-Room-Position")
# A message is some milliseconds of Python, and threads share one processor; more threads would only
# hold more connections to the database.
threads = DatabaseThreads("posts", size=3, answer_seconds=settings.DATABASE_WAIT_SECONDS)


class PostRequest(ASGIRequest):
    """The request that the page would have sent. ``begun`` is set by the view to a run that it has queued."""

    begun: Run | None = None

    def __init__(self, post: Post, visitor: Visitor) -> None:
        scope = visitor.scope
        is_secure = scope.get("scheme") == "wss"
        super().__init__(
            {
                **scope,
                "method": "POST",
                "path": post.action,
                "query_string": b"",
                "scheme": "https" if is_secure else "http",
            },
            BytesIO(),
        )
        for name in HEADERS:
            if name in post.headers:
                self.META[f"HTTP_{name.upper().replace('-', '_')}"] = post.headers[name]
        # Cookies that scripts of the page have set since the websocket was opened; never the session.
        self.COOKIES = {**self.COOKIES, **_cookies_of(post)}
        self._files: MultiValueDict[str, Any] = MultiValueDict()
        self.POST = _fields_of(post)
        self.htmx = HtmxDetails(self)
        # Makes the CSRF token for the forms in the answer.
        CsrfViewMiddleware(_nothing).process_request(self)


def _fields_of(post: Post) -> QueryDict:
    fields = QueryDict(mutable=True)
    for name, value in post.fields:
        fields.appendlist(name, value)
    fields._mutable = False
    return fields


def _cookies_of(post: Post) -> dict[str, str]:
    try:
        return parse_cookie(post.cookie)
    except CookieError:
        return {}


def _nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def note_begun(request: HttpRequest, run: Run) -> None:
    """Stores that a view has queued this run, which the form's tab follows at once."""
    if isinstance(request, PostRequest) and not run.is_repeated:
        request.begun = run


def respond_with(*routes: str) -> Respond:
    """Answers with the views of these routes, and of no others."""

    async def respond(post: Post, visitor: Visitor) -> Answer:
        try:
            sender = f"person {visitor.identity.user_pk}"
            async with request_queue.place(is_message=True, sender=sender):
                return await threads.call(_respond, post, visitor, routes)
        except Overloaded as error:
            seconds = error.seconds
            return _answer_of(PostRequest(post, visitor), lambda request: busy(request, seconds))
        except Exception as error:
            if not is_database_unavailable(error):
                raise
            # No thread was free while the database does not answer.
            return _answer_of(PostRequest(post, visitor), unavailable)

    return respond


def _respond(post: Post, visitor: Visitor, routes: tuple[str, ...]) -> Answer:
    """Answers a form, in a database thread."""
    request = PostRequest(post, visitor)

    def view(request: PostRequest) -> HttpResponse:
        match = resolve(request.path_info)
        if match.url_name not in routes:
            raise Http404(access.NOT_HERE)
        request.user = _signed_in(visitor.identity) or AnonymousUser()
        response: HttpResponse = match.func(request, *match.args, **match.kwargs)
        return response

    try:
        answer = _answer_of(request, view)
        user = getattr(request, "user", None)
        if isinstance(user, User):
            note_use(request, user, visitor.identity.session_key)
        return answer
    finally:
        if connection.errors_occurred:
            connection.close()


def _answer_of(request: PostRequest, view: Any) -> Answer:
    response = person_time_zone(_with_error_pages(view))(request)
    begun = request.begun
    return Answer(
        status=response.status_code,
        headers=dict(response.items()),
        body=response.content.decode(),
        begun=begun
        and BegunRun(
            run_id=begun.public_id,
            run_pk=begun.pk,
            conversation_id=begun.conversation.public_id,
            revision=int(response.headers.get("X-Room-Revision", 0)),
        ),
    )


def _with_error_pages(view: Any) -> Any:
    """Turns errors into responses as Django and our middleware do."""

    def respond(request: PostRequest) -> HttpResponse:
        try:
            response: HttpResponse = view(request)
        except Exception as error:
            if is_database_unavailable(error):
                return unavailable(request, error)
            response = response_for_exception(request, error)
        return response

    return respond


def _signed_in(identity: Identity) -> User | None:
    """The person, if their session is still there and their password is the same (as `AccessMonitor`)."""
    user = _person.first(pk=identity.user_pk, session_key=identity.session_key, now=timezone.now())
    return user if user is not None and user.password == identity.password else None


_person: Prepared[User] = Prepared(
    lambda pk, session_key, now: User.objects.filter(
        Exists(Session.objects.filter(session_key=session_key, expire_date__gt=now)),
        pk=pk,
        is_active=True,
    )
)
