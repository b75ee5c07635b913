"""The cards of calls that Tributary runs: waiting for approval, running, or over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.events import JsonObject
from chat.models import CallStatus, QuestionStatus, ToolCall, ToolRule, User
from chat.questions.input_cards import InputCard, first_open, input_cards
from chat.questions.question_cards import QuestionCard, digest
from chat.rendering import figures
from chat.rendering.approvals import ApprovalCall
from chat.rendering.components import name_of, output_excerpt
from chat.rendering.safety import HIDDEN
from chat.runs.tool_calls import NEEDS_SCOPE, NOT_CONNECTED
from chat.web.tool_words import credential_of, where_called

# Characters of the message that a server sends with its progress.
MESSAGE_CHARACTERS = 200

# The tool's rule as a sentence, for people who may approve.
RULE_SENTENCES: Mapping[str, str | Promise] = {
    ToolRule.OFF: gettext_lazy("This tool is off."),
    ToolRule.ASK: gettext_lazy("This tool asks each time."),
    ToolRule.AUTO_PRIVATE: gettext_lazy(
        "This tool runs by itself only where nobody else reads the conversation."
    ),
    ToolRule.AUTO: gettext_lazy("This tool runs by itself."),
}


@dataclass(kw_only=True)
class ToolCallCard(QuestionCard):
    """``typed`` are the arguments as somebody edited them, if they were refused."""

    typed: str = ""

    @property
    def tool_call(self) -> ToolCall:
        call: ToolCall = self.question.tool_call
        return call

    # --- what it asks ------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> list[InputCard]:
        """Everything that the tool has asked so far. Pages read it for all their calls at once."""
        if not self.tool_call.rounds:
            return []
        return input_cards(self.tool_call.inputs.select_related("answered_by"))

    @property
    def input(self) -> InputCard | None:
        """The request that the call waits for now."""
        return first_open(self.inputs) if self.needs_input else None

    @property
    def settled_inputs(self) -> list[InputCard]:
        return [each for each in self.inputs if not each.asked.is_open]

    @property
    def needs_input(self) -> bool:
        return self.is_open and self.tool_call.status == CallStatus.INPUT

    # --- its state -------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """True if it runs, or will as soon as a runner has room: nobody is asked."""
        return self.question.status == QuestionStatus.RUNNING

    @property
    def may_have_run(self) -> bool:
        return self.tool_call.status == CallStatus.UNKNOWN

    @property
    def stage(self) -> str:
        if self.is_running:
            return "running"
        if not self.is_open:
            return "settled"
        if self.needs_input:
            return f"input{self.input.hex if self.input else ''}"
        if self.needs_account:
            return "connect"
        return "unknown" if self.may_have_run else "approval"

    @property
    def has_own_way_on(self) -> bool:
        """Where one person decides, the others can continue the answer without the call."""
        return not self.tool_call.is_personal

    @property
    def executor(self) -> User | None:
        """The person whose account is used, who alone decides."""
        return self.tool_call.executor if self.tool_call.is_personal else None

    @property
    def is_personal(self) -> bool:
        return self.tool_call.is_personal

    @property
    def needs_account(self) -> bool:
        """True if it waits until the executor has an account at the server, or one with more rights."""
        is_asked = self.is_open and self.tool_call.status == CallStatus.APPROVAL
        lacks_some = not self._has_account or self.tool_call.error == NEEDS_SCOPE
        return is_asked and self.tool_call.is_personal and lacks_some

    @property
    def needed_scopes(self) -> list[str]:
        """The rights that the server wants in addition, in its own words."""
        call = self.tool_call
        return call.needed_scope.split() if call.error == NEEDS_SCOPE else []

    @property
    def _has_account(self) -> bool:
        return bool(getattr(self.question, "has_account", True))

    @property
    def keeps_private(self) -> bool:
        return self.tool_call.keeps_private

    @property
    def may_keep_private(self) -> bool:
        """True if it makes a difference: others read the result, too."""
        return self.tool_call.is_personal and self.is_shared

    @property
    def has_private_output(self) -> bool:
        return self.tool_call.has_private_result

    @property
    def private_output(self) -> SafeString:
        """The result that the executor alone is shown."""
        call = self.tool_call
        return output_excerpt(gettext(call.private_output) if call.error else call.private_output)

    @property
    def hides_words(self) -> bool:
        """True if the server's words in the middle of the call are for the executor alone."""
        return self.tool_call.hides_words(is_shared=self.is_shared)

    @property
    def mark(self) -> str:
        if not self.is_running:
            return super().mark
        return f"{self.stage}-{digest(str(self.tool_call.progress))}"

    # --- what is called ----------------------------------------------------------------------

    @property
    def where(self) -> str:
        """The name of the server, or the host that is asked."""
        return where_called(self.tool_call)

    @property
    def credential(self) -> str:
        return credential_of(self.tool_call)

    @property
    def approval_note(self) -> str:
        """Why an approval is asked for although the rule asks for none."""
        error = self.tool_call.error
        is_connected = error == NOT_CONNECTED and self._has_account
        return gettext(error) if error and self.stage == "approval" and not is_connected else ""

    @property
    def rule_sentence(self) -> str:
        return str(RULE_SENTENCES.get(self.tool_call.rule, ""))

    @property
    def warning(self) -> str:
        """A sentence about the effect of the tool's calls."""
        tool = self.tool_call.tool
        if tool is None:
            return ""
        if tool.is_destructive:
            return gettext("It may change or delete things.")
        return gettext("It only reads.") if tool.is_read_only else ""

    @property
    def warning_icon(self) -> str:
        tool = self.tool_call.tool
        return "triangle-alert" if tool is not None and tool.is_destructive else "eye"

    @property
    def names_reader(self) -> bool:
        """True also if only some writers get its buttons, or only its executor its result."""
        call, tool = self.tool_call, self.tool_call.tool
        is_for_groups = tool is not None and tool.server is not None and tool.server.is_for_groups
        has_private_words = self.has_private_output or self.hides_words
        is_for_executor = call.is_personal and (not self.is_settled or has_private_words)
        return super().names_reader or is_for_executor or (self.is_open and is_for_groups)

    @property
    def may_always(self) -> bool:
        """True if its further calls may be approved in advance."""
        tool = self.tool_call.tool
        return tool is not None and not tool.is_destructive

    @cached_property
    def table(self) -> SafeString:
        """The arguments that are sent."""
        return self._table_of(self.tool_call.arguments)

    @property
    def asked_table(self) -> SafeString:
        """The arguments that the model asked for."""
        return self._table_of(self.question.body.get("arguments") or {})

    def _table_of(self, arguments: JsonObject) -> SafeString:
        return ApprovalCall(tool=self.tool, server="", arguments=arguments, raw="").table

    @property
    def has_arguments(self) -> bool:
        return bool(self.tool_call.arguments)

    @property
    def is_edited(self) -> bool:
        """True if what runs is not what the model asked for."""
        return bool(self.tool_call.arguments != (self.question.body.get("arguments") or {}))

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON, for editing; hidden characters are escaped."""
        return self.typed or editable(self.tool_call.arguments)

    # --- while it runs -----------------------------------------------------------------------

    @property
    def elapsed_milliseconds(self) -> int:
        began = self.tool_call.queued_at
        if began is None:
            return 0
        return max(0, int((timezone.now() - began).total_seconds() * 1000))

    @property
    def elapsed(self) -> str:
        return figures.elapsed(self.elapsed_milliseconds)

    @property
    def progress_message(self) -> str:
        message = self.tool_call.progress.get("message")
        return name_of(message)[:MESSAGE_CHARACTERS] if isinstance(message, str) else ""

    @property
    def percent(self) -> int | None:
        """``None`` unless the server has told how much there is."""
        progress, total = (self.tool_call.progress.get(name) for name in ("progress", "total"))
        if not _is_figure(progress) or not _is_figure(total) or total <= 0:
            return None
        return figures.percent(progress / total)

    # --- the outcome -------------------------------------------------------------------------

    @property
    def duration(self) -> str:
        call = self.tool_call
        if call.finished_at is None or call.sent_at is None:
            return ""
        return figures.duration(
            max(0, int((call.finished_at - call.sent_at).total_seconds() * 1000))
        )

    @property
    def open_state(self) -> str:
        if self.needs_input:
            return gettext("Waiting for input")
        if self.may_have_run:
            return gettext("May have run")
        return (
            gettext("Waiting for sign-in")
            if self.needs_account
            else gettext("Waiting for approval")
        )

    @property
    def outcome(self) -> str:
        describe = _OUTCOMES.get(self.tool_call.status)
        return describe(self) if describe else self.decision

    @property
    def failure(self) -> str:
        """The reason why there is no result. Ours are stored in English, and translated here."""
        call = self.tool_call
        is_without = call.status in (CallStatus.FAILED, CallStatus.REFUSED, CallStatus.UNKNOWN)
        return gettext(call.error) if is_without and call.error else ""

    @property
    def is_told(self) -> bool:
        """True if the answer goes on by itself: it doesn't if somebody has stopped it."""
        return self.question.run.stop_requested_at is None

    @property
    def approval(self) -> str:
        """The person who approved it, where the outcome says something else."""
        person = self.tool_call.approved_by
        if person is None or self.tool_call.status == CallStatus.DONE:
            return ""
        return gettext("Approved by %(person)s") % {"person": person}

    @property
    def icon(self) -> str:
        return (
            _LOOKS.get(self.tool_call.status, (super().icon, ""))[0] if not self.is_wrong else "x"
        )

    @property
    def tone(self) -> str:
        return (
            _LOOKS.get(self.tool_call.status, ("", super().tone))[1] if not self.is_wrong else "bad"
        )


def editable(arguments: object) -> str:
    """Indented JSON in which characters that nobody sees are escaped."""
    text = json.dumps(arguments, ensure_ascii=False, indent=2)
    return HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_done(card: ToolCallCard) -> str:
    if card.question.answered_by is not None:
        # Somebody has given the result instead.
        return card.decision
    person = card.tool_call.approved_by
    if person is None:
        return gettext("Ran automatically")
    return gettext("Approved by %(person)s") % {"person": person}


def _of_failed(card: ToolCallCard) -> str:
    if card.question.status == QuestionStatus.EXPIRED and card.question.answered_by is not None:
        return gettext("Stopped by %(person)s") % {"person": card.question.answerer_name}
    return gettext("Failed") if card.tool_call.error else gettext("The tool reported an error")


def _of_refused(card: ToolCallCard) -> str:
    if card.question.answered_by is None:
        return gettext("Not run")
    return gettext("Refused by %(person)s") % {"person": card.question.answerer_name}


def _of_unknown(card: ToolCallCard) -> str:
    if card.question.status == QuestionStatus.ANSWERED:
        return card.decision
    return gettext("Skipped by %(person)s") % {"person": card.question.answerer_name}


_OUTCOMES: Mapping[str, Callable[[ToolCallCard], str]] = {
    CallStatus.QUEUED: lambda card: gettext("Running"),
    CallStatus.RUNNING: lambda card: gettext("Running"),
    CallStatus.INPUT: lambda card: gettext("Waiting for input"),
    CallStatus.DONE: _of_done,
    CallStatus.FAILED: _of_failed,
    CallStatus.REFUSED: _of_refused,
    CallStatus.UNKNOWN: _of_unknown,
}
_LOOKS: Mapping[str, tuple[str, str]] = {
    CallStatus.QUEUED: ("hourglass", "calm"),
    CallStatus.RUNNING: ("hourglass", "calm"),
    CallStatus.INPUT: ("hand", "calm"),
    CallStatus.DONE: ("check", "good"),
    CallStatus.FAILED: ("x", "bad"),
    CallStatus.REFUSED: ("ban", "calm"),
    CallStatus.UNKNOWN: ("circle-help", "calm"),
}
