"""An administrator opens a private conversation with a reason, and the web process is killed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from lxml import html

from tests.support.processes.site import Site
from tests.support.reasons import REASON

QUESTION = "Where does the river run?"
LINE = f"Opened by an administrator: {REASON}"
VERB = "conversation.opened_by_administrator"


def assert_opening_survives(site: Site) -> None:
    """The site is running, and is killed with signal 9 as soon as it has answered. Then it stands in the audit
    log, in the conversation, and is valid for the rest of its hour."""
    site.rows("UPDATE chat_user SET is_staff = TRUE WHERE name = 'Charlie'")
    room = site.conversation_of(site.send(QUESTION, visibility="private"))
    key = site.value("SELECT id FROM chat_conversation WHERE public_id = ?", room.hex)
    opening, page = f"/administration/open/{room}/", f"/admin/chat/conversation/{key}/change/"
    assert asks(site, page, opening)

    answer = site.post("Charlie", opening, reason=REASON, next=page)
    site.kill9()
    assert answer.headers["Location"] == page
    site.start()

    assert reads(site, page)
    assert audited(site) == [REASON]
    assert lines(site, f"/c/{room}/") == 1
    set_age(site, minutes=59)
    assert reads(site, page)
    set_age(site, minutes=61)
    assert asks(site, page, opening)
    assert lines(site, f"/c/{room}/") == 1

    site.post("Charlie", opening, reason=REASON, next=page)
    assert reads(site, page)
    assert audited(site) == [REASON, REASON]
    assert lines(site, f"/c/{room}/") == 2


def asks(site: Site, page: str, opening: str) -> bool:
    """Returns whether the page asks for a reason first."""
    with site.browser("Charlie") as browser:
        answer = browser.get(page)
    assert answer.status_code in (200, 302)
    return answer.headers.get("Location", "").startswith(opening) and QUESTION not in answer.text


def reads(site: Site, page: str) -> bool:
    with site.browser("Charlie") as browser:
        answer = browser.get(page)
    return answer.status_code == 200 and QUESTION in answer.text


def audited(site: Site) -> list[str]:
    """The reasons in the audit log."""
    events = site.rows("SELECT detail FROM chat_auditevent WHERE verb = ? ORDER BY id", VERB)
    details = [event["detail"] for event in events]
    return [(json.loads(d) if isinstance(d, str) else d)["reason"] for d in details]


def lines(site: Site, path: str) -> int:
    with site.browser("Alice") as browser:
        answer = browser.get(path)
    assert answer.status_code == 200
    found = html.fromstring(answer.text).find_class("opened")
    return sum(LINE in " ".join(line.text_content().split()) for line in found)


def set_age(site: Site, *, minutes: int) -> None:
    given_at = datetime.now(UTC) - timedelta(minutes=minutes)
    site.rows("UPDATE chat_accessreason SET given_at = ?", f"{given_at:%Y-%m-%d %H:%M:%S.%f}")
