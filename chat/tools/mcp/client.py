"""Calls and lists of MCP servers, over the official library. Imported in runners only (`chat.tools.mcp`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, NoReturn

import mcp_types as types
from django.utils.translation import gettext
from mcp.client.client import Client as Connection
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

from chat.tools.command_lines import is_command
from chat.tools.kinds import CallFailed, CallOutput, CallRequest, InputNeeded, InputReply
from chat.tools.mcp.changes import notices_of, subscribed
from chat.tools.mcp.connection import cause_of, connect, trace_meta
from chat.tools.mcp.elicitation import (
    asked_by,
    needed_before,
    needed_by,
    responses_of,
    result_of,
)
from chat.tools.mcp.listing import (
    DESCRIPTION_LENGTH,
    LIST_BYTES,
    LIST_SECONDS,
    MOST_PAGES,
    MOST_TOOLS,
    NEEDS_TASK,
    ListingFailed,
    ListRequest,
    RemoteTool,
    ToolListing,
    clean_json,
    clean_text,
    fresh_seconds_of,
    usable_tools,
)
from chat.tools.mcp.results import InvalidContent, output_of
from chat.tools.mcp.sentences import (
    BAD_RESULT,
    KEY_ACCEPTED,
    MORE_RIGHTS,
    MORE_RIGHTS_OF_KEY,
    NO_SIGN_IN,
    TOO_MUCH_INPUT,
    Problem,
    answered_error,
    problem_of,
    unfinished,
)
from chat.tools.mcp.tasks import TASKS, CreatedTask, begin_task, follow
from chat.tools.mcp.transport import Endpoint, Traffic

# Characters of a message about progress that a card shows.
PROGRESS_LENGTH = 200

# How often a server may ask for the same call once more without asking people for anything, and how long to wait.
MOST_REPEATS = 20
REPEAT_SECONDS = 0.5

_CallResult = types.CallToolResult | types.InputRequiredResult | CreatedTask


def _tag_of(value: object) -> str:
    return "task" if isinstance(value, dict) and value.get("resultType") == "task" else "other"


_results: TypeAdapter[_CallResult] = TypeAdapter(
    Annotated[
        Annotated[types.CallToolResult | types.InputRequiredResult, Tag("other")]
        | Annotated[CreatedTask, Tag("task")],
        Discriminator(_tag_of),
    ]
)


async def call(request: CallRequest) -> CallOutput | InputNeeded:
    """Calls a tool once, or follows the task that does an earlier call. A call that the server has refused because of
    a header of its arguments is sent a second time: it has not run. Raises ``CallFailed``."""
    if request.continuation.task:
        request.heard(False)
        return await follow(request, request.continuation.task)
    traffic = Traffic()
    endpoint = Endpoint(
        url=request.address.url,
        headers=request.address.headers,
        call_headers=_argument_headers(request),
        most_bytes=request.most_bytes,
        before_call=request.sent,
        listens=True,
    )
    try:
        async with (
            connect(
                request.client,
                endpoint,
                traffic,
                on_elicitation=_asker(request),
                on_message=notices_of(request),
                # A process that ends with the connection leaves no task behind.
                extensions=[] if is_command(endpoint.url) else [TASKS],
            ) as connection,
            subscribed(request, connection),
        ):
            result = await _call_until_done(connection, request, traffic)
        if not isinstance(result, CreatedTask):
            return _output(result, traffic)
    except Exception as error:
        if traffic.refusal is not None:
            raise traffic.refusal from None
        if needed := _needed_before(cause_of(error)):
            return needed
        try:
            _fail_call(error, traffic)
        except CallFailed as failed:
            failed.is_unauthorized = traffic.status == 401 and not failed.may_have_run
            failed.missing_scopes = () if failed.may_have_run else tuple(traffic.missing_scopes)
            raise
    finally:
        for each in traffic.recordings():
            request.record(each)
    return await begin_task(request, result, traffic)


def _argument_headers(request: CallRequest) -> Mapping[str, str]:
    """The arguments that the definition of the tool wants as headers, too (``x-mcp-header``). They have names of their
    own, so that none of them replaces a credential."""
    schema = request.address.schema
    if find_invalid_x_mcp_header(schema) is not None:
        return {}
    return mcp_param_headers(x_mcp_header_map(schema), request.arguments)


def _asker(request: CallRequest) -> ElicitationFnT:
    """Answers the requests of servers of older versions, while the call is open."""

    async def ask(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            asked = asked_by(params)
        except CallFailed as refusal:
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(refusal))
        return result_of(await request.ask(asked))

    return ask


def _needed_before(error: BaseException) -> InputNeeded | None:
    is_refusal = isinstance(error, MCPError) and error.code == types.URL_ELICITATION_REQUIRED
    return needed_before(error.error) if is_refusal and isinstance(error, MCPError) else None


async def _call_until_done(
    connection: Connection, request: CallRequest, traffic: Traffic
) -> _CallResult:
    """A server may ask for the call again with another state only, for instance because it is busy."""
    before = request.continuation
    result = await _call(connection, request, traffic, before.state, before.replies)
    for _ in range(MOST_REPEATS):
        if not isinstance(result, types.InputRequiredResult) or result.input_requests:
            return result
        await asyncio.sleep(REPEAT_SECONDS)
        result = await _call(connection, request, traffic, result.request_state, {})
    raise CallFailed(TOO_MUCH_INPUT)


async def _call(
    connection: Connection,
    request: CallRequest,
    traffic: Traffic,
    state: str | None,
    replies: Mapping[str, InputReply],
) -> _CallResult:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        text = clean_text(message or "")[:PROGRESS_LENGTH]
        request.report({"progress": progress, "total": total, "message": text})

    async def send() -> _CallResult:
        # The library’s own `call_tool` is not used: after a call it reads the list of tools, checks the result against a schema of the
        # server, which can take any time, and loses the result if one of the two fails.
        return await connection.session.send_request(
            types.CallToolRequest(
                params=types.CallToolRequestParams(
                    name=request.address.name,
                    arguments=request.arguments,
                    input_responses=responses_of(replies),
                    request_state=state,
                    _meta=trace_meta(request.traceparent),
                )
            ),
            _results,
            progress_callback=report,
        )

    try:
        return await send()
    except MCPError as refused:
        if refused.code != types.HEADER_MISMATCH:
            raise
    traffic.was_sent = False
    await _learn_headers(connection, request.address.name)
    return await send()


async def _learn_headers(connection: Connection, name: str) -> None:
    """Reads the definition of the tool: it says which arguments the server wants as headers, too. The library
    gives those names of their own, so that none of them replaces a credential."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await connection.session.list_tools(
            params=types.PaginatedRequestParams(cursor=cursor)
        )
        cursor = page.next_cursor
        if cursor is None or any(tool.name == name for tool in page.tools):
            return


def _output(
    result: types.CallToolResult | types.InputRequiredResult, traffic: Traffic
) -> CallOutput | InputNeeded:
    if isinstance(result, types.InputRequiredResult):
        return needed_by(result)
    return output_of(
        result, request_bytes=traffic.request_bytes, response_bytes=traffic.response_bytes
    )


def _fail_call(error: Exception, traffic: Traffic) -> NoReturn:
    """Raises ``CallFailed``. An error that the server has answered is an outcome; without an answer, nobody knows
    what a call that was sent has done."""
    cause = cause_of(error)
    match cause:
        case CallFailed():
            raise cause
        case ValidationError() if _is_about_task(cause):
            # There is a task that nobody can ask about.
            raise CallFailed(BAD_RESULT, may_have_run=True) from None
        case InvalidContent() | ValidationError():
            raise CallFailed(BAD_RESULT) from None
        case MCPError() if answered := answered_error(cause, traffic):
            raise CallFailed(answered) from None
    if not traffic.was_sent:
        raise CallFailed(problem_of(cause, traffic).text) from None
    problem: Problem = unfinished(cause, traffic)
    raise CallFailed(problem.text, may_have_run=problem.may_have_run) from None


def _is_about_task(error: ValidationError) -> bool:
    return any(each["loc"][:1] == ("task",) for each in error.errors(include_input=False))


async def _dismiss(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    """Nobody is asked while tools are read."""
    return types.ElicitResult(action="cancel")


async def list_tools(request: ListRequest) -> ToolListing:
    """Connects and reads the tools, as many as are used. The server is told of the same abilities as with a call, because
    it may list some tools only to clients that have them. Raises ``ListingFailed``."""
    traffic = Traffic()
    endpoint = Endpoint(url=request.url, headers=request.headers, most_bytes=LIST_BYTES)
    name = "connect"
    request.step(name, "running", gettext("Connecting…"))
    try:
        async with asyncio.timeout(LIST_SECONDS):
            async with connect(
                request.client, endpoint, traffic, on_elicitation=_dismiss, extensions=[TASKS]
            ) as connection:
                request.step(name, "ok", _version_sentence(connection))
                accepted = KEY_ACCEPTED if request.headers else NO_SIGN_IN
                request.step("sign_in", "ok", request.signed_in or accepted)
                name = "tools"
                request.step(name, "running", gettext("Reading the tools…"))
                return await _listing(connection)
    except Exception as error:
        sentence = problem_of(cause_of(error), traffic).text
        if traffic.missing_scopes:
            words = MORE_RIGHTS if request.signed_in else MORE_RIGHTS_OF_KEY
            sentence = gettext(words) % {"scopes": ", ".join(traffic.missing_scopes)}
        request.step(name, "failed", sentence)
        raise ListingFailed(
            sentence,
            is_unauthorized=traffic.status == 401,
            missing_scopes=tuple(traffic.missing_scopes),
        ) from None


def _version_sentence(connection: Connection) -> str:
    info = connection.server_info
    if info is None:
        text = gettext("Connected. The server speaks MCP %(version)s.")
        return text % {"version": connection.protocol_version}
    text = gettext("Connected to %(name)s, which speaks MCP %(version)s.")
    return text % {
        "name": clean_text(f"{info.name} {info.version}")[:100].strip(),
        "version": connection.protocol_version,
    }


async def _listing(connection: Connection) -> ToolListing:
    offered: list[RemoteTool] = []
    pages: list[types.ListToolsResult] = []
    cursor: str | None = None
    if connection.server_capabilities.tools is None:
        return ToolListing(protocol=connection.protocol_version)
    for _ in range(MOST_PAGES):
        page = await connection.session.list_tools(
            params=types.PaginatedRequestParams(cursor=cursor)
        )
        pages.append(page)
        offered += map(_remote, page.tools[: MOST_TOOLS + 1 - len(offered)])
        is_last = page.next_cursor is None or page.next_cursor == cursor
        cursor = page.next_cursor
        if is_last or len(offered) > MOST_TOOLS:
            break
    tools, unusable = usable_tools(offered[:MOST_TOOLS])
    info = connection.server_info
    return ToolListing(
        protocol=connection.protocol_version,
        server_name=clean_text(info.name)[:100] if info else "",
        tools=tools,
        unusable=unusable,
        is_cut=len(offered) > MOST_TOOLS or not is_last,
        # Earlier versions have neither; the library fills in 0 and "private".
        fresh_seconds=fresh_seconds_of([page.ttl_ms for page in pages]),
        is_public=all(page.cache_scope == "public" for page in pages),
    )


def _remote(tool: types.Tool) -> RemoteTool:
    hints = tool.annotations or types.ToolAnnotations()
    schema = clean_json(tool.input_schema)
    assert isinstance(schema, dict)
    return RemoteTool(
        name=clean_text(tool.name),
        description=clean_text(tool.description or "").strip()[:DESCRIPTION_LENGTH],
        schema=schema,
        is_read_only=hints.read_only_hint is True,
        is_idempotent=hints.idempotent_hint is True,
        is_destructive=hints.destructive_hint is True and hints.read_only_hint is not True,
        problem=NEEDS_TASK if _needs_task(tool) else "",
    )


def _needs_task(tool: types.Tool) -> bool:
    return tool.execution is not None and tool.execution.task_support == "required"
