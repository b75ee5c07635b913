"""The calls of tools that Tributary runs, and what people have decided about them in advance."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import encryption
from chat.models.conversation import Conversation
from chat.models.question import Question
from chat.models.run import Runner
from chat.models.tool import Tool


class ToolChoice(models.Model):
    """The decision of a person about all further calls of a tool in one conversation; for a tool whose calls use
    accounts, about those with the account of ``person``. It never widens the tool's rule: "always" stands for the
    approval that the rule asks for."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="tool_choices"
    )
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="choices")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    is_allowed = models.BooleanField()
    # Results of the calls that run by it are for the person alone, where others read the conversation.
    keeps_private = models.BooleanField(default=False, db_default=False)
    # "Always" stands only while the tool's definition and target are these (`chat.tools.definitions`).
    definition_digest = models.CharField(max_length=64, blank=True)
    # This person must be entitled at the time of the call, too.
    chosen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    chosen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "tool"],
                condition=models.Q(person=None),
                name="tool_choice_unique",
            ),
            models.UniqueConstraint(
                fields=["conversation", "tool", "person"], name="tool_choice_of_person_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} in {self.conversation_id}"


class CallStatus(models.TextChoices):
    APPROVAL = "approval", gettext_lazy("Waiting for approval")
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    # The tool asks people for something in the middle of the call. With a claim, a runner holds the open call.
    INPUT = "input", gettext_lazy("Waiting for input")
    DONE = "done", gettext_lazy("Done")
    FAILED = "failed", gettext_lazy("Failed")
    REFUSED = "refused", gettext_lazy("Refused")
    # It was sent, and its result was not stored: people decide.
    UNKNOWN = "unknown", gettext_lazy("May have run")


def clear_executor(collector: Any, field: Any, rows: Any, using: str) -> None:
    """The ``on_delete`` of a call's executor: nobody is left who may read the private result."""
    models.SET_NULL(collector, field, rows, using)
    collector.add_field_update(field.model._meta.get_field("private_output"), "", rows)


class ToolCall(models.Model):
    """One call that Tributary runs. Its question is settled with the result, as a person's would be."""

    question = models.OneToOneField(Question, on_delete=models.CASCADE, related_name="tool_call")
    # Without one, the tool has been removed since.
    tool = models.ForeignKey(Tool, null=True, on_delete=models.SET_NULL, related_name="calls")
    status = models.CharField(max_length=10, choices=CallStatus.choices)
    # The tool's rule, kind, server and definition when the call was made.
    rule = models.CharField(max_length=16, blank=True)
    kind = models.CharField(max_length=8)
    server_name = models.CharField(max_length=80, blank=True)
    definition_digest = models.CharField(max_length=64, blank=True)
    # The arguments that are sent; the question has those of the model.
    arguments = models.JSONField(default=dict, blank=True)
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    approved_at = models.DateTimeField(null=True)
    # The person whose account it uses, who alone decides about it; none for tools without one.
    executor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=clear_executor, related_name="+"
    )
    # Stays when the executor's account here is deleted: nobody else may take the call over.
    is_personal = models.BooleanField(default=False, db_default=False)
    # Where others read the conversation, the result is for the executor alone. It stands here and nowhere else, so
    # that nothing that shows, copies or exports answers has it.
    keeps_private = models.BooleanField(default=False, db_default=False)
    private_output = models.TextField(blank=True, db_default="")
    # It has ended so; the output may be empty. Files of such a result are counted, and not stored.
    has_private_result = models.BooleanField(default=False, db_default=False)
    private_files = models.PositiveSmallIntegerField(default=0, db_default=0)
    # The scopes that its server wants of the executor's account in addition, by spaces: asked for once.
    needed_scope = models.CharField(max_length=2000, blank=True, default="", db_default="")
    # The runner that has claimed it, and the token of the claim that owns the row.
    runner = models.ForeignKey(
        Runner, null=True, on_delete=models.SET_NULL, related_name="tool_calls"
    )
    claim = models.UUIDField(null=True)
    attempt = models.PositiveIntegerField(default=0)
    queued_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    # Stored before the first byte of the request is sent.
    sent_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # {"progress", "total", "message"}: the last that the server told.
    progress = models.JSONField(default=dict, blank=True)
    request_bytes = models.PositiveBigIntegerField(default=0)
    response_bytes = models.PositiveBigIntegerField(default=0)
    # A sentence for people, if it failed.
    error = models.TextField(blank=True)
    # How often the tool has asked for input (`ToolInput.round`), and the round whose answers go with the next
    # request; 0 for none.
    rounds = models.PositiveSmallIntegerField(default=0, db_default=0)
    answered_round = models.PositiveSmallIntegerField(default=0, db_default=0)
    # The state that the server wants back with the answers, and the id of the task that does the call, encrypted:
    # a client that has one of them may be able to act for us. A finished call that still has a task cancels it.
    sealed_state = models.TextField(blank=True, default="", db_default="", editable=False)
    sealed_task = models.TextField(blank=True, default="", db_default="", editable=False)

    class Meta:
        indexes = [
            # Few of all calls are not finished, and few have a task.
            models.Index(fields=["status"], name="tool_call_status"),
            models.Index(
                fields=["status"], name="tool_call_task", condition=~models.Q(sealed_task="")
            ),
        ]

    def __str__(self) -> str:
        return f"call of question {self.question_id}"

    def hides_words(self, *, is_shared: bool) -> bool:
        """Returns whether what the server says and asks is for the executor alone. ``is_shared``: others read the
        conversation."""
        return self.has_private_result or (self.is_personal and self.keeps_private and is_shared)

    def seal_state(self, state: str | None) -> str:
        """The column for a state of the server; an empty state is one, too."""
        return "" if state is None else encryption.encrypt(state, context=self._context("state"))

    def open_state(self) -> str | None:
        """Raises ``DecryptionError``."""
        return self._open(self.sealed_state, "state")

    def seal_task(self, task: str) -> str:
        return encryption.encrypt(task, context=self._context("task"))

    def open_task(self) -> str:
        """Empty without a task. Raises ``DecryptionError``."""
        return self._open(self.sealed_task, "task") or ""

    def _open(self, sealed: str, name: str) -> str | None:
        return encryption.decrypt(sealed, context=self._context(name)) if sealed else None

    def _context(self, name: str) -> str:
        return f"tool_call:{self.pk}:{name}"


class ToolRecording(models.Model):
    """A message of a call to its server, and the response, without credentials and as far as they are kept. It is
    deleted when recordings of answers are."""

    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="recordings")
    sent = models.TextField(blank=True)
    received = models.TextField(blank=True)
    recorded_at = models.DateTimeField(default=timezone.now, db_index=True)

    def __str__(self) -> str:
        return f"recording of call {self.call_id}"


class InputStatus(models.TextChoices):
    OPEN = "open", gettext_lazy("Open")
    ACCEPTED = "accepted", gettext_lazy("Answered")
    DECLINED = "declined", gettext_lazy("Declined")
    CANCELED = "canceled", gettext_lazy("Dismissed")
    # Nobody answered in time, or the call ended without it.
    EXPIRED = "expired", gettext_lazy("Expired")


class InputSource(models.TextChoices):
    """The way on which a server asks, which decides how it gets the answer."""

    # The call ended with the request, and is made again with the answer.
    RESULT = "result"
    # The server refused the call until somebody has opened an address, and it is made again.
    REFUSAL = "refusal"
    # A runner holds the open call.
    OPEN_CALL = "open"
    TASK = "task"


class ToolInput(models.Model):
    """A request of a tool to people in the middle of a call (elicitation): to fill in a form, or to open an address."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="inputs")
    # Counts from 1; the requests of one round are answered together.
    round = models.PositiveSmallIntegerField()
    position = models.PositiveSmallIntegerField(default=0)
    source = models.CharField(max_length=8, choices=InputSource.choices)
    # The server's own name of the request, unique in its round.
    key = models.CharField(max_length=200, blank=True)
    message = models.TextField(blank=True)
    # The schema of the form; empty for an address.
    schema = models.JSONField(default=dict, blank=True)
    # The address that somebody is to open; empty for a form.
    url = models.TextField(blank=True)
    status = models.CharField(max_length=8, choices=InputStatus.choices, default=InputStatus.OPEN)
    # The values of the form, by name.
    content = models.JSONField(default=dict, blank=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    answered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # When an open call goes on without an answer.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["call", "round", "position"]
        constraints = [
            models.UniqueConstraint(fields=["call", "round", "position"], name="tool_input_unique")
        ]

    def __str__(self) -> str:
        return f"input {self.round}.{self.position} of call {self.call_id}"

    @property
    def is_open(self) -> bool:
        return self.status == InputStatus.OPEN
