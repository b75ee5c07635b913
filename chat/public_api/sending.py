"""Turns requests of the public API into runs: maps parameters to the dialect, then calls the
actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.conversation import switch_tools
from chat.conversations.actions.messages import ModelChoice
from chat.core.errors import ActionRefused, storage_errors
from chat.dialects import DIALECTS
from chat.dialects.parameters import Parameter, read_parameters
from chat.events import Json
from chat.files.actions import NewFile, check_file_counts, new_picture
from chat.models import AccessToken, Project, Question, QuestionKind, Run, Team, Tool
from chat.public_api.catalogue import Chosen, find_model
from chat.public_api.errors import invalid, no_such_run, of_refusal
from chat.public_api.idempotency import bind_key
from chat.public_api.requests import (
    ChatRequest,
    Reply,
    ToolResult,
    unknown_project,
    unknown_response,
)
from chat.questions import actions as question_verbs

# LM Studio's name, and the dialects' names for the same parameter, of which the first is used.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    "max_output_tokens": ("max_output_tokens", "max_tokens"),
    "context_length": ("context_length",),
}
LEFT_OUT = gettext_lazy("Parameter “%(name)s” was ignored: this server doesn’t support it.")
REASONS_ANYWAY = gettext_lazy(
    "Parameter “reasoning” was ignored: this server doesn’t support the value “%(value)s”."
)


@dataclass(slots=True)
class Mapped:
    """Values under the dialect's names, and a note for each that differs from the request."""

    values: dict[str, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def map_parameters(
    parameters: tuple[Parameter, ...], asked: Mapping[str, Json], own: Mapping[str, Json]
) -> Mapped:
    """Maps to these parameters of a server. ``asked`` are LM Studio's, ``own`` the server's, which
    take precedence. Values out of range are clamped."""
    declared = {parameter.name: parameter for parameter in parameters}
    mapped = Mapped()
    for name, value in asked.items():
        if name == "reasoning":
            _map_reasoning(declared, str(value), mapped)
        elif target := next((each for each in _NAMES[name] if each in declared), None):
            mapped.values[target] = value
        else:
            mapped.notes.append(LEFT_OUT % {"name": name})
    mapped.values |= {name: value for name, value in own.items() if name in declared}
    mapped.notes += [
        LEFT_OUT % {"name": "".join(filter(str.isprintable, name))[:60]}
        for name in list(own)[:20]
        if name not in declared
    ]
    chosen = tuple(declared[name] for name in mapped.values)
    mapped.values, mended = read_parameters(chosen, mapped.values)
    mapped.notes += mended
    return mapped


def _map_reasoning(declared: Mapping[str, Parameter], wish: str, mapped: Mapped) -> None:
    if "reasoning" in declared:
        mapped.values["reasoning"] = wish
        return
    efforts = next((declared[name] for name in _EFFORTS if name in declared), None)
    thinking = declared.get("thinking")
    has_word_for_off = efforts is not None and "none" in efforts.choices
    if wish in _THINKING and thinking is not None and not has_word_for_off:
        mapped.values["thinking"] = _THINKING[wish]
        return
    value = {"off": "none"}.get(wish, wish)
    if efforts is not None and value in efforts.choices:
        mapped.values[efforts.name] = value
    elif efforts is not None:
        mapped.notes.append(REASONS_ANYWAY % {"value": wish})
    else:
        mapped.notes.append(LEFT_OUT % {"name": "reasoning"})


_EFFORTS = ("reasoning_effort", "effort")
_THINKING = {"off": "disabled", "on": "enabled"}


# --- a request becomes a run, by the same actions as a form ---------------------------------------

# The prefix of the team's tools. An administrator configures other integrations with the server.
TOOL = "tool/"
INTEGRATION_LEFT_OUT = gettext_lazy(
    "Integration %(number)d was ignored: requests can only use the team’s tools, as "
    "“tool/<name>”. An administrator sets up plugins and MCP servers in the server’s settings."
)
KEPT_ANYWAY = gettext_lazy(
    "The conversation was stored although “store” is false. This answer has no response ID to "
    "continue from."
)
VISIBILITY_LATER = gettext_lazy(
    "Parameter “visibility” was ignored: it only applies to the first message of a conversation."
)
PROJECT_LATER = gettext_lazy(
    "Parameter “project” was ignored: it only applies to the first message of a conversation."
)


def send(token: AccessToken, request: ChatRequest, key: UUID) -> Run:
    """Queues the run that answers; its conversation is loaded. If it raises ``ApiError``, nothing
    was changed."""
    previous = _previous(token, request)
    try:
        with storage_errors():
            if request.replies:
                run = _reply(token, request, previous)
            else:
                run = _say(token, request, previous, key)
            # A repeated key may belong to a run whose conversation was deleted meanwhile.
            if run.conversation.deleted_at is not None:
                raise no_such_run()
            return run
    except ActionRefused as refusal:
        raise of_refusal(refusal) from None


def _previous(token: AccessToken, request: ChatRequest) -> Run | None:
    """The run that is continued. Runs of another team, or of a conversation that the person may not
    write in, are not found."""
    if request.previous is None:
        return None
    try:
        return access.get_run(token.user, request.previous, for_write=True, team_id=token.team_id)
    except (Http404, PermissionDenied):
        raise unknown_response() from None


# --- text -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    """The team's tools that a request names; ``None`` if it names none, and nothing changes."""

    chosen: Sequence[Tool] | None
    notes: Sequence[str] = ()


def _say(token: AccessToken, request: ChatRequest, previous: Run | None, key: UUID) -> Run:
    if not request.text.strip():
        raise invalid(gettext("The input must contain text."), param="input", code="invalid_union")
    chosen = find_model(
        token.user, token.team, request.model, preferred=previous.upstream if previous else None
    )
    tools = _tools(token, request.integrations)
    choice = _choice(request, chosen, previous, tools.notes)
    files = _files(request.pictures)
    if previous is None:
        place = _place(token, request)
        shared = "project" if isinstance(place, Project) else "private"
        with transaction.atomic():
            run = message_actions.start_conversation(
                token.user,
                place,
                text=request.text,
                choice=choice,
                idempotency_key=key,
                visibility=request.visibility or shared,
                tools=tools.chosen or (),
                attachments=files,
            )
            bind_key(run, request)
            return run
    return _follow(token, request, previous, choice, tools, files, key)


def _place(token: AccessToken, request: ChatRequest) -> Team | Project:
    """The place of a new conversation: the team, or a project of it that the person may write
    in."""
    if request.project is None:
        return token.team
    projects = access.writable_projects(token.user).filter(team=token.team_id)
    project = projects.select_related("team").filter(public_id=request.project).first()
    if project is None:
        raise unknown_project()
    return project


def _follow(
    token: AccessToken,
    request: ChatRequest,
    previous: Run,
    choice: ModelChoice,
    tools: _Tools,
    files: Sequence[NewFile],
    key: UUID,
) -> Run:
    """Adds a message below the answer. Below an earlier answer it is a branch."""
    with transaction.atomic():
        if tools.chosen is not None:
            switch_tools(token.user, previous.conversation, tools.chosen)
        run = message_actions.send_message(
            token.user,
            previous.conversation,
            parent=previous.message,
            text=request.text,
            choice=choice,
            idempotency_key=key,
            attachments=files,
        )
        # Inside the transaction, so that the tools stay unchanged if the key belongs to another
        # request.
        bind_key(run, request)
        return run


def _choice(
    request: ChatRequest, chosen: Chosen, previous: Run | None, notes: Iterable[str]
) -> ModelChoice:
    """The choice for a message. If the request has no system prompt, that of the continued answer
    applies; no other value is inherited."""
    dialect = DIALECTS[chosen.upstream.dialect]
    mapped = map_parameters(
        dialect.parameters_for(chosen.upstream.options),
        request.parameters,
        request.own_parameters,
    )
    system_prompt = request.system_prompt
    if system_prompt is None:
        system_prompt = previous.system_prompt if previous else ""
    said = [chosen.note] if chosen.note else []
    if previous is not None and request.visibility is not None:
        said.append(str(VISIBILITY_LATER))
    if previous is not None and request.project is not None:
        said.append(str(PROJECT_LATER))
    return ModelChoice(
        upstream=chosen.upstream,
        model=chosen.model,
        parameters=mapped.values,
        system_prompt=system_prompt.strip(),
        calls_are_for_client=request.runs_tools is False,
        notes=[
            *said,
            *request.notes,
            *notes,
            *mapped.notes,
            *([] if request.stores else [str(KEPT_ANYWAY)]),
        ],
    )


def _tools(token: AccessToken, integrations: Sequence[Json] | None) -> _Tools:
    if integrations is None:
        return _Tools(chosen=None)
    named = [
        entry.removeprefix(TOOL) if isinstance(entry, str) and entry.startswith(TOOL) else None
        for entry in integrations
    ]
    tools = {
        tool.name: tool
        for tool in access.usable_tools(
            token.user, Tool.objects.filter(team=token.team, name__in=filter(None, named))
        ).select_related("server")
    }
    missing = next((name for name in named if name is not None and name not in tools), None)
    if missing is not None:
        raise invalid(
            gettext("The team has no tool named %(name)s.") % {"name": missing[:100]},
            param="integrations",
            code="invalid_value",
        )
    notes = [
        INTEGRATION_LEFT_OUT % {"number": number}
        for number, name in enumerate(named, start=1)
        if name is None
    ]
    return _Tools(chosen=list(tools.values()), notes=notes)


def _files(bodies: Sequence[bytes]) -> list[NewFile]:
    try:
        found = [new_picture(f"picture-{n}", body) for n, body in enumerate(bodies, start=1)]
        check_file_counts([each.media_type for each in found])
        return found
    except ActionRefused as refusal:
        raise invalid(str(refusal), param="input", code="invalid_image") from None


# --- results and replies -----------------------------------------------------------------------


def _reply(token: AccessToken, request: ChatRequest, previous: Run | None) -> Run:
    """Settles all open calls and questions of the answer, and continues it in a new run. If the
    request leaves one open, nothing is settled."""
    if previous is None:
        raise invalid(
            gettext(
                'Tool results and replies need the "previous_response_id" of the waiting answer.'
            ),
            param="previous_response_id",
            code="missing_required_parameter",
        )
    with transaction.atomic():
        left = list(previous.questions.select_related("conversation", "run__conversation"))
        follow_up: Run | None = None
        for reply in request.replies:
            question = _asked(left, reply)
            left.remove(question)
            follow_up = _settle(token, question, reply)
        if follow_up is None:
            names = ", ".join(each.ask_id for each in left if each.is_open)
            message = (
                gettext("The answer is also waiting for: %(names)s") % {"names": names}
                if names
                else gettext("The answer isn’t waiting for anything.")
            )
            raise invalid(message, param="input", code="incomplete_replies")
        return follow_up


def _asked(left: Iterable[Question], reply: ToolResult | Reply) -> Question:
    is_tool = isinstance(reply, ToolResult)
    for question in left:
        if (question.kind == QuestionKind.TOOL) == is_tool and question.ask_id == reply.name:
            return question
    message = gettext("The answer isn’t waiting for %(name)s.") % {"name": reply.name[:100]}
    raise invalid(message, param="input", code="unknown_reply")


def _settle(token: AccessToken, question: Question, reply: ToolResult | Reply) -> Run | None:
    if reply.declined is True:
        return question_verbs.refuse(token.user, question, reply.text)
    if isinstance(reply, ToolResult):
        is_error = reply.is_error is True
        return question_verbs.give_result(token.user, question, reply.text, is_error=is_error)
    if question.kind == QuestionKind.APPROVAL:
        return question_verbs.approve(token.user, question, is_approved=True, reason=reply.text)
    return question_verbs.answer(
        token.user,
        question,
        text=reply.text,
        selected=reply.selected,
        fields=reply.fields,
    )
