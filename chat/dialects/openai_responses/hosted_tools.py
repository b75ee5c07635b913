"""Calls of tools that the Responses API runs itself: search, images, code, shell."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from chat.dialects.items import Call, Item
from chat.dialects.openai_responses.calls import (
    FAILED,
    CallState,
    CustomState,
    FunctionState,
    McpState,
    TextCallState,
)
from chat.dialects.openai_responses.items import OutputItem, Surroundings, error_of
from chat.dialects.openai_responses.values import (
    Received,
    arguments_in,
    failure_text,
    log_text,
    output_text,
    search_sources,
)
from chat.dialects.reading import as_text
from chat.dialects.stream import object_of, objects_of, text_of, whole_of
from chat.events import Executor, Json, JsonObject, MediaUpdate, ProviderInfo

# --- tools that belong to the upstream ---------------------------------------------------------


class Builtin(Struct, frozen=True, kw_only=True):
    """How to read a built-in call: its arguments and its output in the whole item.

    ``waits`` says that its output comes as an item of its own, ``is_answerable`` that it waits for
    a result that a person can give as text.
    """

    tool: str
    arguments: Callable[[JsonObject], JsonObject]
    output: Callable[[JsonObject], str] = lambda item: ""
    executes: Executor = "upstream"
    waits: bool = False
    is_answerable: bool = False


def provider_of_tool(tool: str, *, is_answerable: bool) -> ProviderInfo:
    """A tool of the API. Tools that a person may run here count as our tools."""
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
    return arguments_in(as_text(arguments)) or {}


# Code that the server runs, and that may call functions of ours.
PROGRAM = "program"

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
    PROGRAM: Builtin(
        tool=PROGRAM,
        arguments=lambda item: {"code": item["code"]} if item.get("code") else {},
        waits=True,
    ),
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

    def conclude(self, call: Call) -> None:
        if self.kind == PROGRAM:
            # The result comes with a later answer, after those of the calls that it made.
            self.tracker.close(call)
        else:
            super().conclude(call)


class ImageState(BuiltinState):
    """A picture being drawn. Its previews and the finished picture are one media item."""

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
    """Code that the upstream runs. Its output is text, and pictures that it drew are media."""

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
        self.whole_arguments(item.get("code"))
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
            self.whole_arguments("")
        super().conclude(call)


class ShellState(CallState):
    """Commands that the upstream runs, or leaves to us if its environment is local."""

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
        """The whole output of the commands, in case no item of its own has it."""
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
    """The output in an output item, under the name that its type uses."""
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
