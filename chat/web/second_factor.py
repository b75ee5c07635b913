"""The gate of second factors: a session without the factor that its person needs is not signed in.

It stands between the session and everything that reads ``request.user``, so pages, the administration and the
endpoints of scripts need no check of their own. Websockets and streams ask `chat.access` themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.utils.functional import LazyObject, SimpleLazyObject

from chat.access import FactorState, factor_state
from chat.models import User

# A person who needs a second factor and has none gets these pages: those that add one, which ask for the password,
# and the way out.
OPEN_PATHS = ("/settings/two-step/", "/accounts/reauthenticate/", "/accounts/logout/")


def second_factor(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """The middleware, after the one that sets ``request.user``."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request.user = SimpleLazyObject(partial(_gated_user, request, request.user))  # type: ignore[assignment]
        request.auser = sync_to_async(lambda: request.user)
        return get_response(request)

    return middleware


def _gated_user(request: HttpRequest, found: User | AnonymousUser) -> User | AnonymousUser:
    if not found.is_authenticated:
        return AnonymousUser()
    user: User = found._wrapped if isinstance(found, LazyObject) else found  # type: ignore[assignment]
    state = factor_state(user, request.session)
    if state is FactorState.FULFILLED:
        return user
    if state is FactorState.UNVERIFIED:
        # The session can only be from before the factor, or made without the sign-in page.
        request.session.flush()
        return AnonymousUser()
    request.lacks_second_factor = True  # type: ignore[attr-defined]
    return user if request.path_info.startswith(OPEN_PATHS) else AnonymousUser()


def lacks_second_factor(request: HttpRequest) -> bool:
    """True if the session is complete but for the second factor, which its person has to add first."""
    # The user is loaded when it is first asked for.
    _ = request.user.is_authenticated
    return getattr(request, "lacks_second_factor", False)
