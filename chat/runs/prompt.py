"""Builds the request of a run from the conversation that it belongs to."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import msgspec
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext, ngettext

from chat import events as canonical
from chat.access import rule
from chat.core import file_storage
from chat.core.encryption import DecryptionError
from chat.core.errors import FilesUnavailable
from chat.core.prepared import Prepared, fetch
from chat.dialects import DIALECTS
from chat.dialects.base import (
    AssistantTurn,
    Audio,
    Dialect,
    Image,
    Part,
    Prompt,
    Text,
    ToolDefinition,
    Turn,
    UpstreamRequest,
    UserTurn,
)
from chat.dialects.errors import error_of
from chat.models import (
    Attachment,
    Conversation,
    InstructionsUse,
    PersonalInstructions,
    Role,
    Run,
    RunStatus,
    StoredFile,
    Upstream,
)
from chat.result.merge import answered_head
from chat.result.own_functions import FILES, feature_of
from chat.result.settled import Settled
from chat.runs import queries
from chat.runs.attempts import begin_attempt
from chat.runs.context import first_sent_by
from chat.runs.file_parts import DocumentRefused, FileParts, PartsRequest, file_parts
from chat.runs.offered_tools import in_request
from chat.runs.path import PathMessage, PathRun, read_path_to
from chat.runs.resume import Beginning, filled_output, opening, replies_in, sources_of
from chat.runs.segments import read_events


def read_beginning(run: Run) -> Beginning:
    """A run that was requeued before its request already has the beginning of its log. It is not
    written again."""
    committed = tuple(read_events(run))
    return Beginning(
        committed=committed,
        opening=() if committed else tuple(opening(run)),
        sources=sources_of(run),
    )


# Endings whose response id names a point that the upstream can continue from. After an error it may
# exist, but a person has to decide about that.
CONTINUABLE = (RunStatus.COMPLETED, RunStatus.WAITING, RunStatus.INCOMPLETE)


# Codes of the error of a run whose attachments can't be read at the moment, or never.
FILES_UNAVAILABLE = "files_unavailable"
DOCUMENT_REFUSED = "document_refused"


class NotReady(Exception):
    """The request cannot be made; ``info`` says why, for the answer's error card."""

    def __init__(self, run: Run, info: canonical.ErrorInfo) -> None:
        super().__init__(info.message)
        self.run = run
        self.info = info


class StorageNeeded(Exception):
    """The conversation has attachments, which may be in the storage for files. It may be slow, so the
    run is prepared by a thread that others don't wait for."""


@dataclass(slots=True, kw_only=True)
class Assignment:
    """Everything that an execution needs, read once when the run was claimed.

    ``attempt`` is the number of the attempt if the run is marked as sent: 0 if it must not be sent,
    ``None`` if something has to be done before. Then ``request`` is not made, either.
    """

    run: Run
    upstream: Upstream
    dialect: Dialect
    prompt: Prompt
    key: str
    request: UpstreamRequest | None = None
    attempt: int | None = None

    def forget_conversation(self) -> None:
        """Frees the conversation, which is not needed once the server has accepted the request: it
        can be megabytes, and the answer can take minutes."""
        self.prompt = replace(self.prompt, turns=(), system="", tools=())
        self.request = None


def with_server(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with all that `prepare` reads besides the conversation. The instructions of its project and of the
    person come with it in the same statement."""
    return runs.select_related("upstream").annotate(
        of_project=F("conversation__project"),
        instructions=F("conversation__project__instructions"),
        personal_text=Subquery(_personal_instructions().values("text")),
    )


def _personal_instructions() -> QuerySet[PersonalInstructions]:
    """Instructions that the person of a run wants to be sent in its conversation."""
    private = Conversation.objects.filter(rule.IS_PRIVATE, pk=OuterRef(OuterRef("conversation")))
    is_wanted = Q(use=InstructionsUse.ALL) | (Q(use=InstructionsUse.PRIVATE) & Exists(private))
    return PersonalInstructions.objects.filter(is_wanted, user=OuterRef("requested_by"))


_with_server: Prepared[Any] = Prepared(lambda run: with_server(Run.objects.filter(pk=run)))


def prepare(
    run_pk: int, claimed: Run | None = None, *, may_read_storage: bool = False
) -> Assignment:
    """Reads the run with its conversation, records the instructions that its project and its person add now, and
    marks the first run of an answer as sent if its runner owns it. ``claimed`` is the run, if the
    claim has read it (`with_server`). Raises ``NotReady``, ``DocumentUnread``, and ``StorageNeeded``
    unless the caller ``may_read_storage``."""
    run: Any = claimed or _with_server.first(run=run_pk)
    if run is None:
        raise Run.DoesNotExist
    upstream = run.upstream
    if upstream is None:
        raise _problem(run, gettext("This message’s server was deleted. Choose another server."))
    if not upstream.is_enabled:
        raise _problem(run, gettext("This message’s server is disabled. Choose another server."))
    dialect = DIALECTS.get(upstream.dialect)
    if dialect is None:
        raise _problem(
            run, gettext("This server’s API type isn’t installed. Ask an administrator.")
        )
    try:
        options = upstream.all_options()
    except DecryptionError:
        text = gettext(
            "The server’s secret options can’t be decrypted. "
            "Ask an administrator to enter them again."
        )
        raise _locked(run, text) from None
    try:
        key = upstream.open_key()
    except DecryptionError:
        text = gettext(
            "The server’s API key can’t be decrypted. Ask an administrator to enter it again."
        )
        raise _locked(run, text) from None
    instructions = run.instructions or ""
    if instructions:
        fetch(queries.RECORD_INSTRUCTIONS, [run.pk, run.of_project, instructions])
    personal = run.personal_text or ""
    if personal:
        fetch(queries.RECORD_PERSONAL_INSTRUCTIONS, [run.pk, run.requested_by_id, personal])
    # A run that continues an answer first writes the beginning of its log.
    is_sent_now = run.status == RunStatus.RUNNING and run.runner_id and run.position == 0
    path, attempt = read_path_to(run, upstream.dialect if is_sent_now else "")
    sent = _sent_part(path, run)
    attached = _attached(run, sent.messages, dialect, options, may_read_storage=may_read_storage)
    prompt = _prompt_of(sent, attached, run, upstream, dialect, options, [instructions, personal])
    request = None
    if is_sent_now:
        request = dialect.request(prompt)
        attempt = attempt or begin_attempt(run.pk, run.runner_id, upstream.dialect)
    return Assignment(
        run=run,
        upstream=upstream,
        dialect=dialect,
        prompt=prompt,
        key=key,
        request=request,
        attempt=attempt,
    )


def _locked(run: Run, message: str) -> NotReady:
    return NotReady(run, error_of("auth", message))


def _problem(run: Run, message: str) -> NotReady:
    return NotReady(run, error_of("not_found", message))


def _prompt_of(
    sent: _SentPath,
    attached: FileParts,
    run: Run,
    upstream: Upstream,
    dialect: Dialect,
    options: dict[str, object],
    instructions: Sequence[str],
) -> Prompt:
    turns = [
        turn
        for message in sent.messages
        for turn in _turns(message, attached.parts, run, upstream, sent.start)
    ]
    return Prompt(
        model=run.model,
        turns=tuple(turns),
        # From the general to the special, so that a conversation can narrow what its project and the person say.
        system="\n\n".join(filter(None, (*instructions, run.system_prompt))),
        parameters=run.parameters,
        options=options,
        tools=in_request(msgspec.convert(run.tools, list[ToolDefinition])),
        model_detail=detail_of(upstream, run.model),
        notes=(*sent.notes, *attached.notes),
        previous_response_id=_point_to_continue(sent, run, upstream)
        if dialect.keeps_history
        else None,
    )


def detail_of(upstream: Upstream, model: str) -> canonical.JsonObject:
    """The model's details in the server's list when it was last read."""
    details = (entry.get("detail") for entry in upstream.model_list if entry.get("id") == model)
    detail = next(details, None)
    return detail if isinstance(detail, dict) else {}


# --- the part of the conversation that is sent --------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentPath:
    """The messages that a run is sent, with its answer. ``start`` is the key of the first one if some are left out."""

    messages: Sequence[PathMessage]
    start: int | None = None
    notes: Sequence[str] = ()


def _sent_part(path: Sequence[PathMessage], run: Run) -> _SentPath:
    """A part is recorded, and a note says how many messages were left out."""
    if not path:
        return _SentPath(messages=path)
    first = first_sent_by(path, run.pk)
    known = next((each.sent_from for each in path[-1].runs if each.pk == run.pk), None)
    if not first:
        if known is not None:
            # The choice was taken back after an earlier attempt, which did not send the request.
            fetch(queries.FORGET_SENT_CONTEXT, [run.pk])
        return _SentPath(messages=path)
    start = path[first].pk
    fetch(queries.RECORD_SENT_CONTEXT, [run.pk, start, first])
    words = ngettext(
        "%(count)s earlier message was not sent.",
        "%(count)s earlier messages were not sent.",
        first,
    )
    return _SentPath(messages=path[first:], start=start, notes=[words % {"count": first}])


# --- turns --------------------------------------------------------------------------------------


def _attached(
    run: Run,
    path: Sequence[PathMessage],
    dialect: Dialect,
    options: dict[str, object],
    *,
    may_read_storage: bool,
) -> FileParts:
    """The parts that are sent of the attachments of each user message, in order. The run gets the tools that the model
    reads documents with. Raises ``StorageNeeded``, ``DocumentUnread`` and ``NotReady``."""
    keys = [message.pk for message in path if message.has_attachments and message.role == Role.USER]
    if not keys:
        return FileParts()
    if file_storage.is_configured() and not may_read_storage:
        raise StorageNeeded
    rows = Attachment.objects.filter(message_id__in=keys).select_related("file")
    attachments = list(rows.order_by("message_id", "position"))
    own = [tool for tool in run.tools if feature_of(tool) != FILES]
    parts: dict[int, list[Part]] = {}
    notes: list[str] = []
    try:
        found = file_parts(
            PartsRequest(
                run=run,
                attachments=[each for each in attachments if _kind_of(each.file) is None],
                newest=next((each.pk for each in reversed(path) if each.role == Role.USER), None),
                dialect=dialect,
                options=options,
                takes_tools=dialect.takes_tools
                and not any(tool.get("is_for_client") for tool in own),
                taken_names={str(tool["name"]) for tool in own},
            )
        )
        for row in attachments:
            if kind := _kind_of(row.file):
                if row.file.is_deleted:
                    words = gettext("“%(file)s” was left out: the file was deleted.")
                    notes.append(words % {"file": row.file.name})
                else:
                    parts.setdefault(row.message_id, []).append(_part_of(row.file, kind))
    except FilesUnavailable as error:
        message = gettext("An attached file can’t be read at the moment.")
        raise NotReady(run, error_of("unknown", message, code=FILES_UNAVAILABLE)) from error
    except DocumentRefused as refusal:
        raise NotReady(
            run, error_of("bad_request", str(refusal), code=DOCUMENT_REFUSED)
        ) from refusal
    for key, more in found.parts.items():
        parts.setdefault(key, []).extend(more)
    tools = [*own, *(msgspec.to_builtins(tool) for tool in found.tools)]
    if tools != run.tools:
        run.tools = tools
        Run.objects.filter(pk=run.pk).update(tools=tools)
    return FileParts(parts=parts, notes=list(dict.fromkeys([*found.notes, *notes])))


_KINDS: Mapping[str, type[Image | Audio]] = {"image": Image, "audio": Audio}


def _kind_of(file: StoredFile) -> type[Image | Audio] | None:
    """``None`` for a document."""
    return _KINDS.get(file.media_type.partition("/")[0])


def _part_of(file: StoredFile, kind: type[Image | Audio]) -> Part:
    data = base64.b64encode(file.body).decode()
    return kind(media_type=file.media_type, data=data, name=file.name)


def _turns(
    message: PathMessage,
    attached: Mapping[int, Sequence[Part]],
    current: Run,
    upstream: Upstream,
    start: int | None,
) -> Iterator[Turn]:
    """The turns of a message: one for a user, or one for each run of an answer that has ended
    before the current one."""
    if message.role == Role.USER:
        parts = attached.get(message.pk, ())
        # Texts of documents come first: a model follows best what it is told after them.
        texts = [part for part in parts if isinstance(part, Text)]
        others = [part for part in parts if not isinstance(part, Text)]
        yield UserTurn(parts=(*texts, Text(text=message.text), *others))
        return
    for run, following in zip_longest(message.runs, message.runs[1:]):
        if run.result and run.pk != current.pk:
            yield _answer_turn(run, following, upstream, start)


def _answer_turn(
    run: PathRun, following: PathRun | None, upstream: Upstream, start: int | None
) -> AssistantTurn:
    """The turn that this run's own request produced, with what the run ``following`` it was
    given."""
    result = canonical.decode_result(run.result)
    # A summary that a server made of turns which are left out now is not sent back.
    is_summary = any(step.get("step") == "compaction" for step in result.ext.activity)
    given = msgspec.json.decode(following.inputs, type=list[Settled]) if following else []
    # The first items are the calls of the run before, which have their outcomes there.
    own = len(answered_head(result)) if run.position else 0
    output = filled_output(result, given)[own:]
    return AssistantTurn(
        result=msgspec.structs.replace(result, output=output),
        is_native=_is_native(run, upstream) and not (is_summary and run.sent_from != start),
        replies=tuple(replies_in(result, given)),
    )


def _is_native(run: PathRun, upstream: Upstream) -> bool:
    """Returns whether the same server wrote it, in the dialect that is used with it now. Runs of earlier
    versions do not store their dialect."""
    return run.upstream_id == upstream.pk and run.dialect in ("", upstream.dialect)


def _point_to_continue(sent: _SentPath, run: Run, upstream: Upstream) -> str | None:
    """The id under which this upstream stores everything before the newest question, or before the
    results that a continued answer is given now, and nothing that is left out."""
    before = [(each, one) for each in sent.messages for one in each.runs if one.pk != run.pk]
    if not before:
        return None
    message, last = before[-1]
    if not _is_native(last, upstream) or last.status not in CONTINUABLE:
        return None
    if last.status == RunStatus.WAITING and message.pk != run.message_id:
        # The calls were never answered, and the server would insist on answers.
        return None
    if last.sent_from != sent.start:
        # The server would continue from turns that are left out now, or without turns that are sent again.
        return None
    return last.response_id or None
