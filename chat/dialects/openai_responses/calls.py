"""Calls among the output items of the Responses API: who runs them, their arguments and results."""

from chat.dialects.items import Call
from chat.dialects.openai_responses.items import OutputItem, Surroundings, error_of
from chat.dialects.openai_responses.values import arguments_in, failure_text, output_text
from chat.dialects.reading import as_text, write_json
from chat.dialects.stream import object_of, text_of
from chat.events import Executor, Json, JsonObject, ProviderInfo
from chat.events.translation import gettext_noop

FAILED = gettext_noop("The server reported that this call failed.")


class CallState(OutputItem):
    """A call. Its name, arguments and result may each come in an event of their own."""

    executes: Executor = "upstream"

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        self.call: Call | None = None
        self.has_failed = False
        self.has_result = False
        # Argument text that came before the name: a call is opened once it has a name.
        self._early: list[str] = []
        # Set until the id that the result needs was sent in an event.
        self._is_id_new = False

    @property
    def ref(self) -> str | None:
        return (self.call.call_id if self.call else None) or self.id or None

    @property
    def is_waiting(self) -> bool:
        """True if we have to run the call, and can."""
        return self._is_left_to_us() and self.is_answerable

    @property
    def is_unanswerable(self) -> bool:
        """True if we would have to run it, and nobody here can."""
        return self._is_left_to_us() and not self.is_answerable

    def _is_left_to_us(self) -> bool:
        call = self.call
        if call is None or self.has_result or self.executes != "client":
            return False
        return call.has_arguments

    @property
    def is_answerable(self) -> bool:
        """True if a person can give the result as text."""
        return True

    # --- for subclasses --------------------------------------------------------------------

    def provider(self, item: JsonObject) -> ProviderInfo:
        raise NotImplementedError

    def name_in(self, item: JsonObject) -> str:
        return text_of(item, "name")

    def take_whole(self, item: JsonObject) -> None:
        """The arguments and result in the whole item."""
        raise NotImplementedError

    # --- opening -----------------------------------------------------------------------------

    def opened(self, item: JsonObject | None = None) -> Call:
        """The call, opened if it was not; what the item says about it is used."""
        item = item or {}
        name = self.name_in(item)
        if self.call is None:
            self.call = self.tracker.open_call(
                tool=name,
                call_id=self._call_id(item),
                executes=self.executes,
                provider_info=self.provider(item),
                caller=text_of(object_of(item, "caller"), "caller_id") or None,
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
        """The id for the result, which is not the item's id; calls that need no result have only
        that."""
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
        """The answer was ended early, in order: a call that is not complete is not to be run."""
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
        """A piece of argument text; some servers send an object, which is the whole."""
        if self._has_no_name():
            self._early.append(as_text(value))
            return
        call = self.opened()
        if isinstance(value, str):
            self.tracker.call_text(call, value)
        elif value is not None:
            self.tracker.call_whole_text(call, write_json(value))

    def _has_no_name(self) -> bool:
        return self.call is None and not self.name_in({})

    def whole_arguments(self, value: Json) -> None:
        text = as_text(value)
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
        """The arguments are complete. A call that the upstream runs is not failed for arguments
        that we cannot parse."""
        arguments = arguments_in(call.joined())
        if call.has_arguments:
            # Corrects the arguments that were sent before.
            if arguments is not None:
                self.tracker.call_arguments(call, arguments, call.joined())
        elif self.executes == "client" or arguments is not None:
            self.tracker.finish_arguments(call)

    # --- results ---------------------------------------------------------------------------------

    def succeed(self, output: str) -> bool:
        """Returns whether the call was still open for a result."""
        call = self.opened()
        if not call.is_open:
            return False
        self.has_result = True
        self.tracker.call_success(call, output)
        self.close_step()
        return True

    def fail(self, reason: str) -> None:
        call = self.opened()
        if call.is_open:
            self.has_result = True
            self.tracker.fail_call(call, reason)

    def has_call_id_of(self, item: JsonObject) -> bool:
        """Returns whether an item is this call with another item id."""
        own, given = self.call and self.call.call_id, text_of(item, "call_id")
        return not own or not given or own == given

    def named(self, member: str) -> JsonObject:
        """A call of ours as far as it has arrived, in the upstream's form."""
        if self.call is None or not self.call.has_arguments:
            return {}
        return {
            "call_id": self.call.call_id,
            "name": self.call.tool,
            member: self.call.joined(),
        }


class FunctionState(CallState):
    """A function of ours. It stays open until the answer is complete, because a call of an answer
    that breaks off is never offered."""

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

    def read_arguments(self, call: Call) -> None:
        text = call.joined()
        self.tracker.call_arguments(call, {self.member: text}, text)


class CustomState(TextCallState):
    executes: Executor = "client"

    def provider(self, item: JsonObject) -> ProviderInfo:
        return ProviderInfo(type="custom")

    def take_whole(self, item: JsonObject) -> None:
        self.whole_arguments(item.get("input"))

    def agrees_with(self, item: JsonObject) -> bool:
        return self.has_call_id_of(item)

    def conclude(self, call: Call) -> None:
        if call.pieces and not call.has_arguments:
            self.whole_arguments("")
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
