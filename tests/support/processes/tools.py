"""A tool of kind ``http`` in the records of a site, and an answer that calls it three times."""

from __future__ import annotations

import json
from collections import Counter
from uuid import UUID, uuid4

from msgspec.structs import replace

from tests.runs.waiting import calling, saying, wire_call
from tests.support.processes.runs import assert_ended, kinds, text_of
from tests.support.processes.site import Records, Site, soon
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Gate, Head, Script, Send

CALLS = 3
PATH = "/tool"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
# Where the server is killed, and how many calls may have run then.
PLACES = {
    "before_tool_claim": 0,
    "before_tool_mark": 0,
    "before_tool_result": CALLS,
    "inside_tool_result": CALLS,
    "after_tool_result": 0,
}


def make_tool(records: Records, fake: FakeUpstream, *, is_read_only: bool = False) -> UUID:
    tool = uuid4()
    records.rows(
        "INSERT INTO chat_tool (public_id, team_id, name, description, schema, kind, rule,"
        " is_read_only, created_at)"
        " VALUES (?, (SELECT id FROM chat_team), 'weather', '', ?, 'http', 'auto', ?,"
        " CURRENT_TIMESTAMP)",
        tool.hex,
        json.dumps(SCHEMA),
        is_read_only,
    )
    records.rows(
        "INSERT INTO chat_toolrequest (tool_id, method, address, sealed_headers)"
        " VALUES ((SELECT id FROM chat_tool), 'POST', ?, '')",
        f"{fake.url}{PATH}",
    )
    records.rows("UPDATE chat_upstream SET dialect = 'openai_chat', base_url = ?", f"{fake.url}/v1")
    return tool


def script_calls(
    fake: FakeUpstream, *, gate: str = "", times: int = CALLS, model_gate: str = ""
) -> None:
    """The model calls the tool three times, when the ``model_gate`` is open if there is one; the tool answers, when
    the ``gate`` is."""
    head = Head(headers={"Content-Type": "text/plain"}, framing="length", length=4)
    steps = (head, *([Gate(name=gate)] if gate else []), Send(base64=b"Rain"))
    wanted = [
        wire_call(number, f"c{number}", "weather", json.dumps({"city": f"City {number}"}))
        for number in range(CALLS)
    ]
    model = calling(*wanted)
    if model_gate:
        model = replace(model, steps=(Gate(name=model_gate), *model.steps))
    fake.script(Script(steps=steps, times=times, path=PATH), model, saying("Done."))


def times_called(fake: FakeUpstream) -> Counter[str]:
    """How often each call has reached the tool."""
    return Counter(request.body["city"] for request in fake.requests if request.path == PATH)


def posts_to_model(fake: FakeUpstream) -> int:
    return sum(request.path.endswith("/chat/completions") for request in fake.requests)


def call_statuses(site: Site) -> list[str]:
    rows = site.rows("SELECT status FROM chat_toolcall ORDER BY id")
    return [row["status"] for row in rows]


def until_settled(site: Site) -> list[str]:
    """When no runner has anything more to do with the calls."""
    busy = ("queued", "running")
    soon(lambda: (found := call_statuses(site)) and not any(each in busy for each in found))
    return call_statuses(site)


def answer_open_questions(site: Site, *, by: str = "Bob") -> None:
    """Gives the results of the calls that may have run, as a person does."""
    for row in site.rows("SELECT public_id FROM chat_question WHERE status = 'open'"):
        question = UUID(str(row["public_id"]))
        answered = site.post(by, f"/q/{question}/answer/", output="Given by Bob")
        assert answered.status_code == 302, answered.text


def follow_up_of(site: Site, run: UUID) -> UUID:
    (row,) = soon(
        lambda: site.rows(
            "SELECT later.public_id FROM chat_run later JOIN chat_run r"
            " ON later.message_id = r.message_id AND later.position = r.position + 1"
            " WHERE r.public_id = ?",
            run.hex,
        )
    )
    return UUID(str(row["public_id"]))


def assert_goes_on_once(site: Site, run: UUID) -> None:
    """All results are in the answer, which the model was asked for once more."""
    assert_page_is_right(site, run)
    answer_open_questions(site)
    follow_up = follow_up_of(site, run)
    row = site.until_ended(follow_up)
    entries = assert_ended(site, follow_up, row["status"])
    assert kinds(entries)[1 : 1 + CALLS] == ["ToolCallSuccess"] * CALLS
    assert posts_to_model(site.fake) <= 2
    if row["status"] == "completed":
        assert text_of(site, follow_up) == "Done."
        assert posts_to_model(site.fake) == 2
    else:
        # It was claimed before the kill, and perhaps sent.
        assert row["status"] == "interrupted"
    assert_page_is_right(site, run)


def assert_page_is_right(site: Site, run: UUID) -> None:
    """After a reload it has a card for each call, in the state of its row."""
    with site.browser("Alice") as browser:
        page = browser.get(f"/c/{site.conversation_of(run)}/")
    assert page.status_code == 200
    may_have_run = call_statuses(site).count("unknown")
    assert page.text.count("May have run") >= may_have_run
