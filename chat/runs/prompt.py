"""Builds the prompt of a run from the conversation that it belongs to."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import msgspec

from chat import events as canonical
from chat.actions.continuing import read_inputs
from chat.dialects import DIALECTS
from chat.dialects.base import (
    AssistantTurn,
    Dialect,
    Image,
    Prompt,
    ToolDefinition,
    Turn,
    UserTurn,
)
from chat.merging import answered_head
from chat.models import Attachment, Message, Role, Run, RunStatus, Upstream
from chat.models.tree import path_to
from chat.runs.continuing import filled_output, replies_in
from chat.vault import VaultLocked

# Endings whose response id names a point that the upstream can continue from. After an error it
# may exist, but continuing there is a person's decision.
CONTINUABLE = (RunStatus.COMPLETED, RunStatus.WAITING, RunStatus.INCOMPLETE)


class NotReady(Exception):
    """The request cannot be made; ``info`` says why, for the answer's error card."""

    def __init__(self, info: canonical.ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that an execution needs, read once when the run was claimed."""

    run: Run
    upstream: Upstream
    dialect: Dialect
    prompt: Prompt
    key: str


def prepare(run_pk: int) -> Assignment:
    """Reads the run with its conversation. Raises ``NotReady``."""
    run = Run.objects.select_related("upstream", "conversation", "message").get(pk=run_pk)
    upstream = run.upstream
    if upstream is None:
        raise NotReady(
            _problem("The server that this was sent to has been removed. Choose another.")
        )
    if not upstream.is_enabled:
        raise NotReady(
            _problem("The server that this was sent to has been switched off. Choose another.")
        )
    dialect = DIALECTS.get(upstream.dialect)
    if dialect is None:
        raise NotReady(_problem("This server's dialect is not installed. Tell an administrator."))
    return Assignment(
        run=run,
        upstream=upstream,
        dialect=dialect,
        prompt=_prompt_of(run, upstream, dialect),
        key=_key_of(upstream),
    )


def _key_of(upstream: Upstream) -> str:
    try:
        return upstream.open_key()
    except VaultLocked:
        text = "The server's key cannot be read. An administrator must enter it again."
        raise NotReady(
            canonical.ErrorInfo(message=text, kind="auth", type="invalid_request")
        ) from None


def _options_of(upstream: Upstream) -> dict[str, object]:
    try:
        return upstream.all_options()
    except VaultLocked:
        text = "The server's secret options cannot be read. An administrator must enter them again."
        raise NotReady(
            canonical.ErrorInfo(message=text, kind="auth", type="invalid_request")
        ) from None


def _problem(message: str) -> canonical.ErrorInfo:
    return canonical.ErrorInfo(message=message, kind="not_found", type="invalid_request")


def _prompt_of(run: Run, upstream: Upstream, dialect: Dialect) -> Prompt:
    messages = {message.pk: message for message in run.conversation.messages.all()}
    path = path_to(messages[run.message_id], messages)
    answers = _answers(path, run)
    images = _images(path)
    turns = [
        turn
        for message in path
        for turn in _turns(message, answers.get(message.pk, []), images, run, upstream)
    ]
    return Prompt(
        model=run.model,
        turns=tuple(turns),
        system=run.system_prompt,
        parameters=run.parameters,
        options=_options_of(upstream),
        tools=tuple(msgspec.convert(run.tools, list[ToolDefinition])),
        model_detail=_detail_of(upstream, run.model),
        previous_response_id=_point_to_continue(path, answers, run, upstream)
        if dialect.keeps_history
        else None,
    )


def _detail_of(upstream: Upstream, model: str) -> canonical.JsonObject:
    """What the server's list said of the model, when it was last read."""
    details = (entry.get("detail") for entry in upstream.model_list if entry.get("id") == model)
    detail = next(details, None)
    return detail if isinstance(detail, dict) else {}


def _answers(path: list[Message], run: Run) -> dict[int, list[Run]]:
    """The runs of each answer on the path, in order; of the one that goes on up to this run."""
    keys = [message.pk for message in path if message.role == Role.ASSISTANT]
    answers: dict[int, list[Run]] = {}
    for one in Run.objects.filter(message_id__in=keys).order_by("message_id", "position"):
        if one.message_id != run.message_id or one.position <= run.position:
            answers.setdefault(one.message_id, []).append(one)
    return answers


def _images(path: list[Message]) -> dict[int, list[Image]]:
    """The pictures of each person's turn, in order."""
    keys = [message.pk for message in path if message.role == Role.USER]
    rows = Attachment.objects.filter(message_id__in=keys).select_related("file")
    images: dict[int, list[Image]] = {}
    for row in rows.order_by("message_id", "position"):
        data = base64.b64encode(bytes(row.file.body)).decode()
        image = Image(media_type=row.file.media_type, data=data)
        images.setdefault(row.message_id, []).append(image)
    return images


def _turns(
    message: Message,
    runs: list[Run],
    images: dict[int, list[Image]],
    current: Run,
    upstream: Upstream,
) -> Iterator[Turn]:
    """A person's turn, or one for each run of an answer that has ended before the current one."""
    if message.role == Role.USER:
        yield UserTurn(text=message.text, images=tuple(images.get(message.pk, ())))
        return
    # Longest: an answer may have lost its runs, by an administrator's hand for one.
    for run, following in zip_longest(runs, runs[1:]):
        if run.result and run.pk != current.pk:
            yield _answer_turn(run, following, upstream)


def _answer_turn(run: Run, following: Run | None, upstream: Upstream) -> AssistantTurn:
    """What this run's own request gave, with what the run ``following`` it was given for it."""
    result = canonical.decode_result(run.result)
    given = read_inputs(following) if following else []
    # Its first items are the calls of the run before, which have their outcomes there.
    own = len(answered_head(result)) if run.position else 0
    output = filled_output(result, given)[own:]
    return AssistantTurn(
        result=msgspec.structs.replace(result, output=output),
        is_native=_is_native(run, upstream),
        replies=tuple(replies_in(result, given)),
    )


def _is_native(run: Run, upstream: Upstream) -> bool:
    """Whether the same server wrote it, in the dialect that is spoken with it now. Runs of
    earlier versions do not tell their dialect."""
    return run.upstream_id == upstream.pk and run.dialect in ("", upstream.dialect)


def _point_to_continue(
    path: list[Message], answers: dict[int, list[Run]], run: Run, upstream: Upstream
) -> str | None:
    """The id under which this upstream keeps everything before the newest question, or before
    what the answer that goes on is given now."""
    keys = [message.pk for message in path if message.role == Role.ASSISTANT]
    before = [one for key in keys for one in answers.get(key, []) if one.pk != run.pk]
    last = before[-1] if before else None
    if last is None or not _is_native(last, upstream) or last.status not in CONTINUABLE:
        return None
    if last.status == RunStatus.WAITING and last.message_id != run.message_id:
        # Its calls were never answered, and the server would insist.
        return None
    return last.response_id or None
