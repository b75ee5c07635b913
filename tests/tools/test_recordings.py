"""The messages of calls in the receipts of runs: who sees them, and which are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html
from pytest_django import Settings

from chat.models import (
    CallStatus,
    Conversation,
    InputSource,
    InputStatus,
    Run,
    ToolCall,
    ToolInput,
    ToolRecording,
    User,
)
from chat.run_details.tool_receipts import tool_receipts_of
from chat.tools import calls, claims
from chat.tools.execution import MOST_RECORDINGS, Execution
from chat.tools.kinds import (
    RECORDED_BYTES,
    AskedInput,
    CallFailed,
    CallOutput,
    InputNeeded,
    Recording,
)
from chat.tools.recordings import end_recorded, purge_some
from tests.tools.calling import call_of, claim

pytestmark = pytest.mark.django_db

RECORDING = Recording(sent="GET /weather/Oslo\x00", received="<b>Rain</b>")
ASKED = InputNeeded(asked=[AskedInput(message="Which city?")], source=InputSource.RESULT)


def end(
    user: User, run: Run, ending: CallOutput | CallFailed | InputNeeded, **values: object
) -> None:
    calls.approve(user, call_of(run))
    (claimed,) = claim(run)
    assert claims.mark_sent(claimed.pk, claimed.claim)
    ToolCall.objects.filter(pk=claimed.pk).update(**values)
    assert end_recorded(claimed.pk, claimed.claim, ending, [RECORDING])
    # A runner that has lost the call changes nothing.
    assert not end_recorded(claimed.pk, claimed.claim, ending, [Recording(sent="late")])


@pytest.mark.parametrize(
    "ending", [CallOutput(text="Rain"), CallFailed("It broke."), ASKED], ids=type
)
def test_messages_are_kept_however_the_call_ends(
    run: Run, alice: User, ending: CallOutput | CallFailed | InputNeeded
) -> None:
    end(alice, run, ending)

    kept = ToolRecording.objects.get(call=call_of(run))
    assert (kept.sent, kept.received) == (RECORDING.sent.replace("\x00", "\u2400"), "<b>Rain</b>")


def test_messages_of_all_requests_of_a_call_are_kept(run: Run, alice: User) -> None:
    end(alice, run, ASKED)
    ToolInput.objects.update(status=InputStatus.ACCEPTED)
    ToolCall.objects.update(status=CallStatus.QUEUED, claim=None)
    (claimed,) = claim(run)
    later = [Recording(sent="second"), Recording(sent="third", received="<i>Sun</i>")]

    assert end_recorded(claimed.pk, claimed.claim, CallOutput(text="Sun"), later)

    [receipt] = tool_receipts_of(run, with_settings=True)
    shown = [html.fromstring(text).findtext(".//pre//code") for _, text in receipt.messages]
    assert shown == ["GET /weather/Oslo\u2400", "<b>Rain</b>", "second", "third", "<i>Sun</i>"]


async def test_first_and_last_messages_of_many_are_kept() -> None:
    # The claimed call isn’t looked at.
    execution = Execution(call=None)  # type: ignore[arg-type]
    for number in range(100):
        execution.record(Recording(sent=f"message {number}"))
    execution.record(Recording())

    kept = [each.sent for each in execution.recordings]
    assert (len(kept), kept[0], kept[1], kept[-1]) == (
        *(MOST_RECORDINGS, "message 0"),
        *("message 81", "message 99"),
    )
    for text in ("a" * RECORDED_BYTES, "b" * RECORDED_BYTES, "c" * RECORDED_BYTES):
        execution.record(Recording(sent=text, received=text))
    assert [each.sent[0] for each in execution.recordings] == ["m", "c"]


@pytest.mark.parametrize(("role", "sees"), [("writer", True), ("reader", False)])
def test_messages_are_shown_to_those_who_see_recordings(
    run: Run, alice: User, bob: User, conversation: Conversation, role: str, sees: bool
) -> None:
    end(alice, run, CallOutput(text="Rain"))
    conversation.shared_role = role
    conversation.save()
    browser = Client()
    browser.force_login(bob)

    page = browser.get(reverse("run_details", args=[run.public_id])).content.decode()

    assert "Tool calls" in page
    assert ("Raw messages" in page) is sees
    assert ("&lt;b&gt;Rain&lt;/b&gt;" in page) is sees
    assert "<b>Rain</b>" not in page


def test_messages_of_a_result_that_stays_private_are_not_kept(run: Run, alice: User) -> None:
    end(alice, run, CallOutput(text="Rain"), is_personal=True, keeps_private=True, executor=alice)

    assert not ToolRecording.objects.exists()


def test_messages_expire_with_other_recordings(run: Run, alice: User, settings: Settings) -> None:
    end(alice, run, CallOutput(text="Rain"))
    assert not purge_some()
    assert ToolRecording.objects.exists()
    old = timezone.now() - timedelta(days=settings.RAW_FRAMES_DAYS + 1)
    ToolRecording.objects.update(recorded_at=old)

    assert not purge_some()
    assert not ToolRecording.objects.exists()
    assert ToolCall.objects.exists()
