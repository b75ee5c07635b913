"""Times that would tell who has an account: sign-in with a wrong password and forgotten password, for addresses with an
account and without one, on both databases.

``make bench BENCH=enumeration``: 200 requests of each kind, in turns, so that what disturbs one disturbs the other. The
medians must differ by less than the spread of either, which is the distance between the quartiles. ``ENUMERATION_PAIRS``
sets another number of requests.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import reverse

from chat.models import User
from tests.bench.both_databases import measured_on_both
from tests.bench.load.arithmetic import median, percentile

PAIRS = int(os.environ.get("ENUMERATION_PAIRS", "200"))
PEOPLE = 20
WARM_UP = 5
KINDS = ("known", "unknown")
# Without the limits of requests, which end an attack long before; and with a mail server that takes everything.
SETTINGS = {
    "ACCOUNT_RATE_LIMITS": False,
    "EMAIL_HOST": "mail.example.org",
    "EMAIL_BACKEND": "django.core.mail.backends.locmem.EmailBackend",
}

Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


def report() -> str:
    lines = [f"Enumeration: {PAIRS} requests each for addresses with and without an account; ms"]
    for name, found in measured_on_both("tests.bench.enumeration"):
        lines += ["", *told(name, found)]
    return "\n".join(lines)


def told(database: str, found: Figures) -> list[str]:
    lines = [f"{database:<14}{'':16}{'median':>10}{'spread':>10}{'processor':>11}"]
    for page, kinds in found.items():
        for kind in KINDS:
            figures = kinds[kind]
            numbers = f"{figures['median']:>10.2f}{figures['spread']:>10.2f}"
            lines.append(f"{page:<18}{kind:<12}{numbers}{figures['processor']:>11.2f}")
        apart, least = difference(kinds)
        verdict = "less than" if apart < least else "NOT LESS THAN"
        lines.append(
            f"{'':18}they differ by {apart:.2f}, {verdict} the smaller spread, {least:.2f}"
        )
    return lines


def difference(kinds: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    """The distance of the medians, and the smaller spread."""
    apart = abs(kinds["known"]["median"] - kinds["unknown"]["median"])
    return apart, min(kinds[kind]["spread"] for kind in KINDS)


# --- in the process of one database -------------------------------------------------------------


def measure() -> Figures:
    call_command("migrate", verbosity=0)
    chance = random.Random(36)
    people = User.objects.bulk_create(
        User(email=f"person{number:02}@example.org", name=f"Person {number}")
        for number in range(PEOPLE)
    )
    for person in people:
        person.set_password("correct willow rivers")
        person.save()
    pages = {"Sign-in": _sign_in, "Forgotten password": _forgotten}
    with override_settings(**SETTINGS):
        return {name: _measured(page, chance) for name, page in pages.items()}


def _measured(
    page: Callable[[str], HttpResponse], chance: random.Random
) -> dict[str, dict[str, float]]:
    seen: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for number in range(WARM_UP + PAIRS):
        for kind in chance.sample(KINDS, len(KINDS)):
            times = _times_of(page, _address(kind, chance))
            if number >= WARM_UP:
                seen[kind].append(times)
    return {kind: _figures(times) for kind, times in seen.items()}


def _address(kind: str, chance: random.Random) -> str:
    """Both kinds are of one length."""
    return f"{'person' if kind == 'known' else 'nobody'}{chance.randrange(PEOPLE):02}@example.org"


def _times_of(page: Callable[[str], HttpResponse], email: str) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor for this thread."""
    began, spent = time.perf_counter(), time.thread_time()
    page(email)
    return 1000 * (time.perf_counter() - began), 1000 * (time.thread_time() - spent)


def _figures(times: list[tuple[float, float]]) -> dict[str, float]:
    clock = [each for each, _ in times]
    return {
        "median": median(clock),
        "spread": percentile(clock, 0.75) - percentile(clock, 0.25),
        "processor": median(each for _, each in times),
    }


def _sign_in(email: str) -> HttpResponse:
    return _post("account_login", login=email, password="wrong willow rivers")


def _forgotten(email: str) -> HttpResponse:
    return _post("account_reset_password", email=email)


def _post(page: str, **fields: str) -> HttpResponse:
    response = Client(HTTP_HOST="localhost").post(reverse(page), fields)
    assert response.status_code in (200, 302), response.status_code
    return response


if __name__ == "__main__":
    print(json.dumps(measure()))
