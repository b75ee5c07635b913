"""Tasks: calls that a server goes on with after it has answered (extension ``io.modelcontextprotocol/tasks``).

The id of a task is stored before anything else, so whichever runner has the call asks the server about it. Each
request is a connection of its own: a task outlives many of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal, NoReturn

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from chat.models import InputSource
from chat.tools.kinds import (
    CallFailed,
    CallOutput,
    CallRequest,
    Cancellation,
    InputNeeded,
    NeedsSignIn,
)
from chat.tools.mcp.connection import cause_of, connect, trace_meta
from chat.tools.mcp.elicitation import asked_in, responses_of
from chat.tools.mcp.listing import clean_text
from chat.tools.mcp.results import InvalidContent, output_of
from chat.tools.mcp.sentences import (
    BAD_RESULT,
    KEY_REFUSED,
    TASK_CANCELED,
    TASK_FAILED,
    TASK_GONE,
    said,
)
from chat.tools.mcp.transport import Endpoint, Traffic
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# The wait between two questions about a task, whatever the server suggests, and without a suggestion.
LEAST_POLL_SECONDS, MOST_POLL_SECONDS, POLL_SECONDS = 0.5, 30.0, 2.0
ID_LENGTH = 1000
# Bytes of the answer to a cancellation, and how long it may take.
CANCEL_BYTES = 64 * 1024
CANCEL_SECONDS = 10.0
# The message of the error that the library makes of a response with the status 404 and no error of the protocol.
_NOT_FOUND = HTTPStatus.NOT_FOUND.phrase


def _number(value: object) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> object:
    return value if isinstance(value, str) else None


# Members that only help are ignored if they aren't valid, so that no task is lost with them.
_Milliseconds = Annotated[float | None, BeforeValidator(_number)]
_Message = Annotated[str | None, BeforeValidator(_text)]


class CreatedTask(types.Result):
    """The first response to a call that has become a task."""

    result_type: Literal["task"] = "task"
    task_id: str = Field(min_length=1, max_length=ID_LENGTH)
    status_message: _Message = None
    poll_interval_ms: _Milliseconds = None


class TaskState(types.Result):
    """The server's words about a task."""

    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    task_id: str | None = None
    status_message: _Message = None
    poll_interval_ms: _Milliseconds = None
    input_requests: types.InputRequests | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: types.InputResponses


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams


_states: TypeAdapter[TaskState] = TypeAdapter(TaskState)
_acknowledgements: TypeAdapter[types.EmptyResult] = TypeAdapter(types.EmptyResult)


async def _resolve(created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
    """The library calls this in its own `call_tool` only, which is not used here."""
    raise RuntimeError("tasks are followed by the runner that has the call")


class TasksExtension(ClientExtension):
    """Declares to servers of the version without sessions that a call may become a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> list[ResultClaim[CreatedTask]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=_resolve)]


TASKS = TasksExtension()


async def begin_task(
    request: CallRequest, created: CreatedTask, traffic: Traffic
) -> CallOutput | InputNeeded:
    """Stores the id of a new task, and then follows it. Raises ``CallFailed``."""
    if not await request.store_task(created.task_id):
        await _tell_canceled(
            request.client, request.address.url, request.address.headers, created.task_id
        )
        raise CallFailed(TASK_CANCELED)
    _report(request, created.status_message)
    await asyncio.sleep(_pause(created.poll_interval_ms))
    return await follow(request, created.task_id, request_bytes=traffic.request_bytes)


@dataclass(slots=True, kw_only=True)
class _Polls:
    """The requests about one task. ``headers`` are credentials; ``is_renewed``: the server has answered nothing since
    they are new."""

    request: CallRequest
    headers: Mapping[str, str]
    is_renewed: bool = False

    async def renew(self) -> bool:
        """Gets a new token after the server has refused this one. False without an account, or if there is none right
        now. Raises ``CallFailed`` if the server has refused a new one, or the person has to sign in again."""
        if self.request.renew is None:
            return False
        if self.is_renewed:
            raise CallFailed(KEY_REFUSED, may_have_run=True, leaves_task=True, is_unauthorized=True)
        try:
            self.headers = await self.request.renew()
        except NeedsSignIn as ended:
            raise CallFailed(str(ended), may_have_run=True, leaves_task=True) from None
        except CallFailed:
            return False
        self.is_renewed = True
        return True


async def follow(
    request: CallRequest, task_id: str, *, request_bytes: int = 0
) -> CallOutput | InputNeeded:
    """Brings the answers of people to a task, and asks about it until it ends or needs more of them. A server that
    can't be reached is asked again: the runner of the call has a limit for that. Raises ``CallFailed``."""
    polls = _Polls(request=request, headers=request.address.headers)
    meta = trace_meta(request.traceparent)
    responses = responses_of(request.continuation.replies)
    if responses is not None:
        params = _UpdateParams(task_id=task_id, input_responses=responses, _meta=meta)
        # The server ignores answers that it has already got.
        await _until_answered(polls, _UpdateTask(params=params), _acknowledgements)
    while True:
        state, traffic = await _until_answered(
            polls, _GetTask(params=_TaskParams(task_id=task_id, _meta=meta)), _states
        )
        if state.task_id not in (None, task_id):
            raise CallFailed(BAD_RESULT, may_have_run=True)
        _report(request, state.status_message)
        ended = _ENDINGS.get(state.status)
        if ended is not None:
            return ended(state, request_bytes, traffic)
        if state.status == "input_required" and (needed := _new_input(request, state)):
            return needed
        await asyncio.sleep(_pause(state.poll_interval_ms))


def _new_input(request: CallRequest, state: TaskState) -> InputNeeded | None:
    """The requests that the task makes for the first time: it may take a while until it knows of answers."""
    known = request.continuation.known
    new = {key: each for key, each in (state.input_requests or {}).items() if key not in known}
    return InputNeeded(asked=asked_in(new), source=InputSource.TASK) if new else None


def _completed(state: TaskState, request_bytes: int, traffic: Traffic) -> CallOutput:
    try:
        result = types.CallToolResult.model_validate(state.result, by_name=False)
        return output_of(result, request_bytes=request_bytes, response_bytes=traffic.total_bytes)
    except (ValidationError, InvalidContent):
        raise CallFailed(BAD_RESULT) from None


def _failed(state: TaskState, request_bytes: int, traffic: Traffic) -> NoReturn:
    message = (state.error or {}).get("message")
    text = message if isinstance(message, str) else state.status_message
    raise CallFailed(said(clean_text(text or "")) or TASK_FAILED)


def _canceled(state: TaskState, request_bytes: int, traffic: Traffic) -> NoReturn:
    raise CallFailed(TASK_CANCELED, may_have_run=True)


_ENDINGS: Mapping[str, Callable[[TaskState, int, Traffic], CallOutput]] = {
    "completed": _completed,
    "failed": _failed,
    "cancelled": _canceled,
}


async def _until_answered(
    polls: _Polls, message: types.Request[Any, Any], adapter: TypeAdapter[Any]
) -> tuple[Any, Traffic]:
    request = polls.request
    while True:
        traffic = Traffic()
        endpoint = Endpoint(
            url=request.address.url,
            headers=polls.headers,
            most_bytes=request.most_bytes,
        )
        try:
            answer = await _exchange(request.client, endpoint, traffic, message, adapter)
        except Exception as error:
            request.heard(False)
            if traffic.missing_scopes and request.renew is not None:
                raise _needs_scopes(traffic) from None
            _raise_final(cause_of(error), traffic)
            if traffic.status == HTTPStatus.UNAUTHORIZED and await polls.renew():
                continue
        else:
            polls.is_renewed = False
            request.heard(True)
            return answer, traffic
        finally:
            for each in traffic.recordings():
                request.record(each)
        await asyncio.sleep(_pause(None))


async def _exchange(
    client: Client,
    endpoint: Endpoint,
    traffic: Traffic,
    message: types.Request[Any, Any],
    adapter: TypeAdapter[Any],
) -> Any:
    async with connect(client, endpoint, traffic, extensions=[TASKS], is_modern=True) as connection:
        return await connection.session.send_request(message, adapter)


def _needs_scopes(traffic: Traffic) -> CallFailed:
    """The runner asks the person of the account for them. The task goes on meanwhile."""
    return CallFailed(
        KEY_REFUSED, may_have_run=True, leaves_task=True, missing_scopes=traffic.missing_scopes
    )


def _raise_final(error: BaseException, traffic: Traffic) -> None:
    """Raises ``CallFailed`` if the server has said something about the task that it would say the next time, too. What
    the task has done is unknown then. A status alone may be of a proxy, or of a key that is being changed."""
    if isinstance(error, ValidationError):
        raise CallFailed(BAD_RESULT, may_have_run=True) from None
    if traffic.failure is not None and traffic.failure.info.code == "too_large":
        raise CallFailed(traffic.failure.info.message, may_have_run=True) from None
    if not isinstance(error, MCPError) or not traffic.has_message:
        return
    is_stand_in = traffic.status == 404 and error.message == _NOT_FOUND
    if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND) and not is_stand_in:
        raise CallFailed(TASK_GONE, may_have_run=True) from None


def _report(request: CallRequest, message: str | None) -> None:
    if message:
        request.report({"message": clean_text(message)})


def _pause(milliseconds: float | None) -> float:
    """Seconds."""
    if milliseconds is None or milliseconds != milliseconds:
        return POLL_SECONDS
    return min(max(milliseconds / 1000, LEAST_POLL_SECONDS), MOST_POLL_SECONDS)


async def cancel(client: Client, cancellation: Cancellation) -> None:
    address = cancellation.address
    await _tell_canceled(client, address.url, address.headers, cancellation.task)


async def _tell_canceled(
    client: Client, url: str, headers: Mapping[str, str], task_id: str
) -> None:
    message = _CancelTask(params=_TaskParams(task_id=task_id))
    endpoint = Endpoint(url=url, headers=headers, most_bytes=CANCEL_BYTES)
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await _exchange(client, endpoint, Traffic(), message, _acknowledgements)
    except Exception as error:
        # The server need not know the task any more, and decides itself what it does about it.
        logger.info("tool_task.not_canceled error=%s", type(cause_of(error)).__name__)
