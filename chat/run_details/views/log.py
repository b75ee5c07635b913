"""A run as a recording: its events in pages, and one event beside the frames that it was made
from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_GET

from chat import access, events
from chat.access import NOT_HERE
from chat.models import Run
from chat.rendering import figures
from chat.rendering.components import excerpt, excerpt_of_json
from chat.rendering.messages import EVENTS, event_label
from chat.run_details import log_pages
from chat.run_details.export import export_events, export_raw
from chat.run_details.log_pages import Row, type_of
from chat.run_details.trace import TEXT_MEMBERS, Trace, trace
from chat.runs.public_events import public_event, without_settings
from chat.upstreams.redaction import redact_patterns
from chat.web.decorators import login_required

EVENT_LETTERS_SHOWN = 160
# How many events are shown before one that a link leads to.
LINES_BEFORE = 10
WHOLE_WIDTH = 1000
# Narrower than that a moment is not seen.
LEAST_WIDTH = 10
# Members that browsers must not get: data for the next request, and the upstream's own turn.
WITHHELD: dict[str, str] = {
    "replay.data": gettext_noop("(data for the next request; not shown)"),
    "chat.end": gettext_noop("(the result; see Usage)"),
}
HIDDEN_RECORDING = gettext_noop(
    "Only people who can write in this conversation can see what the server sent."
)
# How an event and the frames beside it belong together, in a sentence.
TRACES: dict[str, str] = {
    "exact": gettext_noop("This event was decoded from exactly this data."),
    "segment": gettext_noop(
        "This event was decoded from part of this data; which part isn’t known."
    ),
    "own": gettext_noop("Tributary added this event, for example at the end of a stream."),
    "unknown": gettext_noop(
        "There is a recording, but the data of this event couldn’t be found in it."
    ),
    "gone": gettext_noop("No recording (none was made, or it expired)"),
    "hidden": HIDDEN_RECORDING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A row of the list: one event, or ``count`` of a type from ``seq`` to ``last``. ``x`` and
    ``width`` are its time, in thousandths of the run."""

    seq: int
    last: int
    count: int
    at: str
    x: int
    width: int
    type: str
    words: str
    size: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of events; ``query`` is that of the list with this type toggled."""

    type: str
    slug: str
    words: str
    count: int
    is_chosen: bool
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    seq: int
    json: SafeString
    raw: SafeString | str
    how: str
    note: str
    is_withheld: bool


@login_required
@require_GET
def log(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The list of events: the whole list if the types change, else further rows, or with
    ``?until=`` the events behind a folded one."""
    run = access.get_run(request.user, public_id)
    if "until" in request.GET:
        return render(request, "run_details/lines.html", folded_lines(run, request))
    if "after" in request.GET or "before" in request.GET:
        return render(request, "run_details/lines.html", further_lines(run, request))
    return render(request, "run_details/events.html", log_context(run, request))


@login_required
@require_GET
def event(request: HttpRequest, public_id: UUID, seq: int) -> HttpResponse:
    run = access.get_run(request.user, public_id)
    opened = opened_at(run, seq, with_settings=sees_settings(request, run))
    if opened is None:
        raise Http404(NOT_HERE)
    context = {"run": run, "opened": opened}
    return render(request, "run_details/event.html", context)


@login_required
@require_GET
def export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponse:
    """A download: ``raw``, what the server sent, or ``events``."""
    run = access.get_run(request.user, public_id)
    with_settings = sees_settings(request, run)
    found = EXPORTS[form](run, with_settings=with_settings) if form in EXPORTS else None
    if found is None:
        raise Http404(NOT_HERE)
    response = HttpResponse(found.body, content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{found.name}"'
    return response


EXPORTS = {"raw": export_raw, "events": export_events}


def sees_settings(request: HttpRequest, run: Run) -> bool:
    return access.may_see_settings(request.user, run.conversation)


def number_in(request: HttpRequest, name: str) -> int:
    """A number in the address; 0 if it is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def log_context(run: Run, request: HttpRequest) -> dict[str, Any]:
    """The context of the list: ``?type=`` any number of times, ``?at=``, ``?after=`` or
    ``?before=``."""
    chosen = types_in(request)
    counts = log_pages.counts_of(run.pk)
    whole = whole_of(run)
    at = number_in(request, "at")
    opened = opened_at(run, at, with_settings=sees_settings(request, run)) if at else None
    return {
        **lines_context(run, request, whole, opened=opened),
        "kinds": [kind_of(name, count, chosen) for name, count in counts.items()],
        "is_filtered": bool(chosen),
        "opened": opened,
        "total": sum(counts.values()),
        "whole": figures.duration(whole) if whole else "",
    }


def further_lines(run: Run, request: HttpRequest) -> dict[str, Any]:
    """Rows to add at one end of a list. Nothing is counted, because reading a long log to its end
    would count it once for each page."""
    context = lines_context(run, request, whole_of(run))
    return {**context, "later" if "before" in request.GET else "earlier": ""}


def folded_lines(run: Run, request: HttpRequest) -> dict[str, Any]:
    after, until = number_in(request, "after"), number_in(request, "until")
    whole = whole_of(run)
    entries = log_pages.entries_between(run.pk, after, until)
    sees = sees_settings(request, run)
    return {
        "run": run,
        "lines": [line_of([entry], whole, with_settings=sees) for entry in entries],
    }


def whole_of(run: Run) -> int:
    """The time of the last event in milliseconds."""
    last = log_pages.last_entry(run.pk)
    return log_pages.t_in(last.body) if last else 0


def lines_context(
    run: Run, request: HttpRequest, whole: int, *, opened: Opened | None = None
) -> dict[str, Any]:
    """A page of rows. Around an opened event, and of chosen types, each event is a row."""
    chosen, before = types_in(request), number_in(request, "before")
    sees = sees_settings(request, run)
    is_folded = not chosen and not opened
    if before:
        page = log_pages.page_before(run.pk, before, types=chosen, is_folded=is_folded)
    else:
        start = max(0, opened.seq - 1 - LINES_BEFORE) if opened else number_in(request, "after")
        page = log_pages.page_after(run.pk, start, types=chosen, is_folded=is_folded)
    has_earlier, has_later = (
        bool(page.rows) and more for more in (page.has_earlier, page.has_later)
    )
    return {
        "run": run,
        "lines": [line_of(row, whole, with_settings=sees) for row in page.rows],
        "later": query_of(chosen, after=page.rows[-1][-1].seq) if has_later else "",
        "earlier": query_of(chosen, before=page.rows[0][0].seq) if has_earlier else "",
    }


def types_in(request: HttpRequest) -> list[str]:
    """The known types among those in the address, each once: every event is compared with them, and
    every link repeats them."""
    return [kind for kind in dict.fromkeys(request.GET.getlist("type")) if kind in EVENTS]


def query_of(types: Collection[str], **numbers: int) -> str:
    return urlencode([*(("type", kind) for kind in types), *numbers.items()])


def kind_of(kind: str, count: int, chosen: Collection[str]) -> Kind:
    switched = [one for one in chosen if one != kind]
    if kind not in chosen:
        switched.append(kind)
    return Kind(
        type=kind,
        slug=kind.replace(".", "-"),
        words=event_label(kind),
        count=count,
        is_chosen=kind in chosen,
        query=query_of(switched),
    )


def line_of(row: Row, whole: int, *, with_settings: bool) -> LogLine:
    first, last = row[0], row[-1]
    kind = log_pages.type_in(first.body)
    t = log_pages.t_in(first.body)
    x, end = (_place(each, whole) for each in (t, log_pages.t_in(last.body)))
    return LogLine(
        seq=first.seq,
        last=last.seq,
        count=len(row),
        at=figures.clock(t),
        x=x,
        width=max(LEAST_WIDTH, end - x),
        type=kind,
        words=event_label(kind),
        size=figures.size(sum(len(entry.body) for entry in row)),
        text=_text_of(row, with_settings=with_settings),
    )


def _place(t: int, whole: int) -> int:
    return round(WHOLE_WIDTH * min(max(t, 0), whole) / whole) if whole else 0


def _text_of(row: Row, *, with_settings: bool) -> str:
    """An event as JSON; several deltas as their text, several reports as the last one."""
    event = events.decode(row[-1].body)
    if not with_settings:
        event = without_settings(event)
    kind = type_of(event)
    if kind in WITHHELD:
        return gettext(WITHHELD[kind])
    if len(row) > 1 and (member := TEXT_MEMBERS.get(type(event))):
        return _short("".join(_pieces(row, member)))
    members = msgspec.to_builtins(event)
    said = {name: value for name, value in members.items() if name not in ("type", "seq", "t")}
    return _short(msgspec.json.encode(said).decode()) if said else ""


def _pieces(row: Row, member: str) -> Iterator[str]:
    """The pieces that an excerpt needs, and some more for secrets across its end."""
    characters = 0
    for entry in row:
        piece = str(getattr(events.decode(entry.body), member))
        yield piece
        characters += len(piece)
        if characters > 2 * EVENT_LETTERS_SHOWN:
            return


def _short(text: str) -> str:
    text = redact_patterns(text)
    return text if len(text) <= EVENT_LETTERS_SHOWN else f"{text[:EVENT_LETTERS_SHOWN]}…"


def opened_at(run: Run, seq: int, *, with_settings: bool) -> Opened | None:
    """The event with this number: canonical, and as it came, for those who may see what servers repeat of
    the settings."""
    entry = log_pages.entry_at(run.pk, seq)
    if entry is None:
        return None
    event = events.decode(entry.body)
    shown = msgspec.to_builtins(public_event(event, run.public_id, with_settings=with_settings))
    found = trace(run, seq) if with_settings else Trace(how="hidden")
    raw = redact_patterns(found.raw.decode("utf-8", "replace"))
    return Opened(
        seq=seq,
        json=excerpt_of_json(
            msgspec.json.decode(redact_patterns(msgspec.json.encode(shown).decode()))
        ),
        raw=excerpt(raw) if raw else "",
        how=found.how,
        note=gettext(TRACES[found.how]),
        is_withheld=type_of(event) in WITHHELD,
    )
