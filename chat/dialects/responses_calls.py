"""Calls among the output items of the Responses API: who runs them, with what, and what came of it."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from chat.dialects.items import Call, Item
from chat.dialects.reading import write_json
from chat.dialects.responses_items import OutputItem, Surroundings, error_of
from chat.dialects.responses_values import (
    Received,
    arguments_in,
    failure_text,
    log_text,
    output_text,
    search_sources,
    text_in,
)
from chat.dialects.stream import object_of, objects_of, text_of, whole_of
from chat.events import (
    Executor,
    FailureMetadata,
    Json,
    JsonObject,
    MediaUpdate,
    ProviderInfo,
)

FAILED = "The server reports that this call failed."


class CallState(OutputItem):
    """A call. The name, the arguments and the result may each come in an event of its own."""

    executes: Executor = "upstream"

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        self.call: Call | None = None
        self.has_failed = False
        self.has_result = False
        # Argument text that came before the name: a call is opened once it has one.
        self._early: list[str] = []
        # Set while the id to answer with is in no event yet.
        self._is_id_new = False

    @property
    def ref(self) -> str | None:
        return (self.call.call_id if self.call else None) or self.id or None

    @property
    def is_waiting(self) -> bool:
        """Whether somebody on our side has to run the call, and can."""
        return self._is_left_to_us() and self.is_answerable

    @property
    def is_unanswerable(self) -> bool:
        """Whether it was left to us and nobody here can run it."""
        return self._is_left_to_us() and not self.is_answerable

    def _is_left_to_us(self) -> bool:
        call = self.call
        if call is None or self.has_result or self.executes != "client":
            return False
        return call.has_arguments

    @property
    def is_answerable(self) -> bool:
        """Whether a person can give the result as text."""
        return True

    # --- for subclasses --------------------------------------------------------------------

    def provider(self, item: JsonObject) -> ProviderInfo:
        raise NotImplementedError

    def name_in(self, item: JsonObject) -> str:
        return text_of(item, "name")

    def take_whole(self, item: JsonObject) -> None:
        """Arguments and result of the whole item."""
        raise NotImplementedError

    # --- opening -----------------------------------------------------------------------------

    def opened(self, item: JsonObject | None = None) -> Call:
        """The call, opened if it is not; what the item says about it is taken."""
        item = item or {}
        name = self.name_in(item)
        if self.call is None:
            self.call = self.tracker.open_call(
                tool=name,
                call_id=self._call_id(item),
                executes=self.executes,
                provider_info=self.provider(item),
            )
        call = self.call
        if name and not (call.tool and call.is_announced):
            call.tool = name
        if call.call_id is None:
            call.call_id = self._call_id(item)
            self._is_id_new = call.is_announced and call.call_id is not None
        if item and call.tool:
            self.tracker.announce(call)
        early, self._early = self._early, []
        for text in early:
            self.tracker.call_text(call, text)
        return call

    def _call_id(self, item: JsonObject) -> str | None:
        """The id to answer with, which is not the item's; calls that nobody answers have only that."""
        own = text_of(item, "call_id")
        if self.executes == "client":
            return own or None
        return own or text_of(item, "id") or self.id or None

    def on_added(self, item: JsonObject) -> None:
        self.opened(item)

    def on_whole(self, item: JsonObject) -> None:
        call = self.opened(item)
        if item.get("status") == "incomplete":
            self.has_result = True
            self.tracker.close(call, is_complete=False)
        elif call.is_open:
            self.take_whole(item)

    def on_end(self, *, is_complete: bool) -> None:
        if self._early:
            self.opened()
        if is_complete and self.call is not None and self.call.is_open:
            self.conclude(self.call)

    def take_back(self, *, keeps_done: bool) -> None:
        """The answer was ended early, in order: a call that is not whole is not to be run."""
        if self.call is None or (keeps_done and self.is_done and self.executes == "client"):
            return
        self.has_result = True
        self.tracker.close(self.call, is_complete=False)

    def conclude(self, call: Call) -> None:
        """The answer is complete and the call still open."""
        if self.executes == "client":
            self._conclude_for_client(call)
        elif self.has_failed:
            self.fail(FAILED)
        else:
            self.tracker.finish_arguments(call)
            self.succeed("")

    def _conclude_for_client(self, call: Call) -> None:
        if call.call_id is None:
            call.call_id = f"call_{self.id or call.number}"
            call.id_synthesised = self._is_id_new = True
        if self._is_id_new and call.arguments is not None:
            self.tracker.call_arguments(call, call.arguments, call.arguments_raw)
        self.tracker.close(call, is_complete=True)

    # --- arguments -----------------------------------------------------------------------------

    def fragment(self, value: Json) -> None:
        """A piece of argument text; at some servers an object, which is the whole."""
        if self._has_no_name():
            self._early.append(text_in(value))
            return
        call = self.opened()
        if isinstance(value, str):
            self.tracker.call_text(call, value)
        elif value is not None:
            self.tracker.call_whole_text(call, write_json(value))

    def _has_no_name(self) -> bool:
        return self.call is None and not self.name_in({})

    def whole_arguments(self, value: Json) -> None:
        text = text_in(value)
        if self._has_no_name():
            self._early = [text] if text else self._early
            return
        call = self.opened()
        if not call.is_open or (call.has_arguments and text in ("", call.arguments_raw)):
            return
        if text:
            self.tracker.call_whole_text(call, text)
        self.read_arguments(call)

    def read_arguments(self, call: Call) -> None:
        """The buffer is complete. What an upstream runs it has read itself, whatever we can."""
        arguments = arguments_in(call.joined())
        if call.has_arguments:
            # Said before, and now corrected.
            if arguments is not None:
                self.tracker.call_arguments(call, arguments, call.joined())
        elif self.executes == "client" or arguments is not None:
            self.tracker.finish_arguments(call)

    # --- results ---------------------------------------------------------------------------------

    def succeed(self, output: str) -> bool:
        """Whether the call was still open for a result."""
        call = self.opened()
        if not call.is_open:
            return False
        self.has_result = True
        self.tracker.call_success(call, output)
        self.close_step()
        return True

    def fail(self, reason: str, *, kind: str = "execution_failed") -> None:
        call = self.opened()
        if call.is_open:
            self.has_result = True
            metadata = FailureMetadata(
                type=kind,
                tool_name=call.tool,
                arguments=call.arguments,
                provider_info=call.provider_info,
            )
            self.tracker.call_failure(call, reason, metadata)

    def has_call_id_of(self, item: JsonObject) -> bool:
        """Whether an item is this call under another id of its own."""
        own, given = self.call and self.call.call_id, text_of(item, "call_id")
        return not own or not given or own == given

    def named(self, member: str) -> JsonObject:
        """A call of ours as far as it came, in the upstream's form."""
        if self.call is None or not self.call.has_arguments:
            return {}
        return {
            "call_id": self.call.call_id,
            "name": self.call.tool,
            member: self.call.joined(),
        }


class FunctionState(CallState):
    """A function of ours. It stays open until the answer is complete: a call of an answer that
    breaks off is never offered."""

    executes: Executor = "client"

    def provider(self, item: JsonObject) -> ProviderInfo:
        return ProviderInfo(type="function")

    def take_whole(self, item: JsonObject) -> None:
        self.whole_arguments(item.get("arguments"))

    def agrees_with(self, item: JsonObject) -> bool:
        return self.has_call_id_of(item)

    def grown(self) -> JsonObject:
        return self.named("arguments")


class TextCallState(CallState):
    """A call whose input is text, not JSON; ``member`` names it among the arguments."""

    member = "input"

    def whole_text(self, text: str) -> None:
        if self._has_no_name():
            self._early = [text] if text else self._early
            return
        call = self.opened()
        if not call.is_open or (call.has_arguments and text in ("", call.arguments_raw)):
            return
        if text:
            self.tracker.call_whole_text(call, text)
        text = call.joined()
        self.tracker.call_arguments(call, {self.member: text}, text)


class CustomState(TextCallState):
    executes: Executor = "client"

    def provider(self, item: JsonObject) -> ProviderInfo:
        return ProviderInfo(type="custom")

    def take_whole(self, item: JsonObject) -> None:
        self.whole_text(text_in(item.get("input")))

    def agrees_with(self, item: JsonObject) -> bool:
        return self.has_call_id_of(item)

    def conclude(self, call: Call) -> None:
        if call.pieces and not call.has_arguments:
            self.whole_text("")
        super().conclude(call)

    def grown(self) -> JsonObject:
        return self.named("input")


class McpState(CallState):
    """A tool of an MCP server that the upstream calls. Some servers put name and arguments into a
    member ``mcp``, and give the result in an item of its own at the very end."""

    def provider(self, item: JsonObject) -> ProviderInfo:
        label = text_of(item, "server_label") or text_of(object_of(item, "mcp"), "server_label")
        return ProviderInfo(type="mcp", server_label=label or None)

    def name_in(self, item: JsonObject) -> str:
        return text_of(item, "name") or text_of(object_of(item, "mcp"), "name")

    def opened(self, item: JsonObject | None = None) -> Call:
        call = super().opened(item)
        info = self.provider(item or {})
        if info.server_label:
            call.provider_info = info
        return call

    def take_whole(self, item: JsonObject) -> None:
        arguments = item.get("arguments")
        if arguments is None:
            arguments = object_of(item, "mcp").get("arguments")
        self.whole_arguments(arguments)
        error = error_of(item)
        if error or self.has_failed or item.get("status") == "failed":
            self.fail(failure_text(error, FAILED))
        elif item.get("output") is not None:
            self.succeed(output_text(item["output"]))


# --- tools that belong to the upstream ---------------------------------------------------------


class Builtin(Struct, frozen=True, kw_only=True):
    """How a built-in call reads: its arguments and its output in the whole item.

    ``waits`` says that its output comes as an item of its own, ``is_answerable`` that it waits
    for a result that a person can give as text.
    """

    tool: str
    arguments: Callable[[JsonObject], JsonObject]
    output: Callable[[JsonObject], str] = lambda item: ""
    executes: Executor = "upstream"
    waits: bool = False
    is_answerable: bool = False


def provider_of_tool(tool: str, *, is_answerable: bool) -> ProviderInfo:
    """A tool of the API's own. Those that a person may run here count as tools of ours."""
    return ProviderInfo(type="custom" if is_answerable else "builtin", name=tool)


def _action(item: JsonObject) -> JsonObject:
    action = object_of(item, "action") or object_of(item, "operation")
    if not action and isinstance(item.get("actions"), list):
        return {"actions": item["actions"]}
    return {name: value for name, value in action.items() if name != "sources"}


def _search_arguments(item: JsonObject) -> JsonObject:
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        return arguments
    return arguments_in(text_in(arguments)) or {}


BUILTINS: Mapping[str, Builtin] = {
    "web_search_call": Builtin(tool="web_search", arguments=_action, output=search_sources),
    "file_search_call": Builtin(
        tool="file_search",
        arguments=lambda item: {"queries": item["queries"]} if item.get("queries") else {},
        output=lambda item: output_text(item.get("results")),
    ),
    "image_generation_call": Builtin(
        tool="image_generation",
        arguments=lambda item: (
            {"prompt": item["revised_prompt"]} if item.get("revised_prompt") else {}
        ),
    ),
    "computer_call": Builtin(tool="computer", arguments=_action, executes="client"),
    "local_shell_call": Builtin(
        tool="local_shell", arguments=_action, executes="client", is_answerable=True
    ),
    "apply_patch_call": Builtin(
        tool="apply_patch", arguments=_action, executes="client", is_answerable=True
    ),
    "tool_search_call": Builtin(tool="tool_search", arguments=_search_arguments, waits=True),
}


class BuiltinState(CallState):
    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        self.builtin = BUILTINS[kind]
        self.executes = self.builtin.executes

    def opened(self, item: JsonObject | None = None) -> Call:
        if item and item.get("execution") == "client":
            self.executes = "client"
        call = super().opened(item)
        self.tracker.announce(call)
        return call

    @property
    def is_answerable(self) -> bool:
        return self.builtin.is_answerable

    def provider(self, item: JsonObject) -> ProviderInfo:
        return provider_of_tool(self.builtin.tool, is_answerable=self.is_answerable)

    def name_in(self, item: JsonObject) -> str:
        return self.builtin.tool

    def take_whole(self, item: JsonObject) -> None:
        call = self.opened(item)
        arguments = self.builtin.arguments(item)
        is_known = call.has_arguments and call.arguments == arguments
        if not is_known and (arguments or self.executes == "client"):
            self.tracker.call_arguments(call, arguments, None)
        if item.get("status") == "failed":
            self.fail(failure_text(error_of(item), FAILED))
        elif self.executes == "upstream" and not self.builtin.waits:
            self.succeed(self.builtin.output(item))


class ImageState(BuiltinState):
    """A picture being drawn. Its sketches and the finished picture are one media item."""

    _media: Item | None = None

    def partial(self, data: JsonObject) -> bool:
        picture = data.get("partial_image_b64")
        if not isinstance(picture, str):
            return False
        self._show(data, picture, "partial", whole_of(data, "partial_image_index"))
        return True

    def take_whole(self, item: JsonObject) -> None:
        picture = item.get("result")
        if isinstance(picture, str) and picture:
            self._show(item, picture, "final", None)
        super().take_whole(item)

    def _show(self, data: JsonObject, picture: str, state: str, index: int | None) -> None:
        self.opened()
        if self._media is None:
            self._media = self.tracker.open_media()
        suffix = text_of(data, "output_format") or "png"
        self.tracker.emit(
            MediaUpdate(
                item=self._media.number,
                media_id=self.id or f"image-{self._media.number}",
                media_type="image/svg+xml" if suffix == "svg" else f"image/{suffix}",
                state="final" if state == "final" else "partial",
                index=index,
                data=picture,
            )
        )


class CodeState(TextCallState):
    """Code that the upstream runs; what it printed is the output, what it drew are media."""

    member = "code"

    def provider(self, item: JsonObject) -> ProviderInfo:
        return ProviderInfo(type="builtin", name="code_interpreter")

    def name_in(self, item: JsonObject) -> str:
        return "code_interpreter"

    def opened(self, item: JsonObject | None = None) -> Call:
        call = super().opened(item)
        self.tracker.announce(call)
        return call

    def take_whole(self, item: JsonObject) -> None:
        self.whole_text(text_in(item.get("code")))
        outputs = objects_of(item, "outputs")
        if item.get("status") == "failed":
            self.fail(log_text(outputs) or FAILED)
            return
        self.succeed(log_text(outputs))
        for output in outputs:
            if output.get("type") == "image" and text_of(output, "url"):
                self._show(text_of(output, "url"))

    def _show(self, url: str) -> None:
        media = self.tracker.open_media()
        head, _, data = url.partition(",") if url.startswith("data:") else ("", "", "")
        media_type = head.removeprefix("data:").removesuffix(";base64")
        self.tracker.emit(
            MediaUpdate(
                item=media.number,
                media_id=f"{self.id or 'code'}-{media.number}",
                media_type=media_type or "image/*",
                data=data or None,
                url=None if data else url,
            )
        )

    def conclude(self, call: Call) -> None:
        if call.pieces:
            self.whole_text("")
        super().conclude(call)


class ShellState(CallState):
    """Commands that the upstream runs, or, where its environment is local, leaves to us."""

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        self._commands: dict[int, Received] = {}
        self._outputs: list[Json] = []

    def provider(self, item: JsonObject) -> ProviderInfo:
        return provider_of_tool("shell", is_answerable=self.executes == "client")

    def name_in(self, item: JsonObject) -> str:
        return "shell"

    def opened(self, item: JsonObject | None = None) -> Call:
        if item and object_of(item, "environment").get("type") == "local":
            self.executes = "client"
        call = super().opened(item)
        call.executes = self.executes
        self.tracker.announce(call)
        return call

    def command(self, index: int, text: str) -> None:
        call = self.opened()
        if index not in self._commands:
            self._commands[index] = Received()
            if len(self._commands) > 1:
                self.tracker.call_text(call, "\n")
        self._commands[index].pieces.append(text)
        self.tracker.call_text(call, text)

    def whole_command(self, index: int, whole: str) -> None:
        received = self._commands.get(index)
        rest = whole if received is None else received.rest_of(whole)
        if rest:
            self.command(index, rest)
        elif rest is None:
            self.around.differ(self, "command")
            self._commands[index] = Received()
            self._commands[index].pieces.append(whole)

    def printed(self, value: Json) -> None:
        """What the commands wrote, as a whole, in case no item of its own says so."""
        self._outputs += value if isinstance(value, list) else [value]

    def take_whole(self, item: JsonObject) -> None:
        self._read_commands(_action(item))
        if item.get("status") == "failed":
            self.fail(failure_text(error_of(item), FAILED))

    def conclude(self, call: Call) -> None:
        self._read_commands({})
        if self._outputs:
            self.succeed(output_text(self._outputs))
        else:
            super().conclude(call)

    def _read_commands(self, action: JsonObject) -> None:
        call = self.opened()
        commands = [received.joined() for _, received in sorted(self._commands.items())]
        arguments = action if action.get("commands") else {**action, "commands": commands}
        if call.is_open and not call.has_arguments and arguments["commands"]:
            self.tracker.call_arguments(call, arguments, None)


class OutputState(OutputItem):
    """The result of a call, as an item of its own."""

    is_announced_whole = True

    def __init__(
        self,
        around: Surroundings,
        kind: str,
        identity: str,
        index: int | None,
        *,
        deliver: Callable[[JsonObject], bool],
    ) -> None:
        super().__init__(around, kind, identity, index)
        self._deliver = deliver
        self._is_delivered = False

    def on_whole(self, item: JsonObject) -> None:
        if self._is_delivered:
            return
        self._is_delivered = True
        if not self._deliver(item):
            self.around.parser.raw(f"output_item:{self.kind}", data=item)

    def on_end(self, *, is_complete: bool) -> None:
        if self._wire:
            self.on_whole(self._wire)


def result_text(item: JsonObject) -> str:
    """The output that an output item carries, under the name its type has for it."""
    value = item.get("output")
    if value is None and item.get("tools") is not None:
        names = [text_of(tool, "name") for tool in objects_of(item, "tools")]
        return "\n".join(filter(None, names))
    return output_text(value if value is not None else item.get("result"))


CALLS: Mapping[str, type[CallState]] = {
    "function_call": FunctionState,
    "custom_tool_call": CustomState,
    "mcp_call": McpState,
    "code_interpreter_call": CodeState,
    "shell_call": ShellState,
    **dict.fromkeys(BUILTINS, BuiltinState),
    "image_generation_call": ImageState,
}
