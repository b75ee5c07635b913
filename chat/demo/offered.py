"""Tools that a request offers, and the calls that the demo makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chat.demo import prose
from chat.demo.scenes import Message, Part, Scene, ToolCall, ToolFailure

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    name: str
    schema: JsonObject = field(default_factory=dict)


def offered_in(body: Mapping[str, Any]) -> tuple[Offered, ...]:
    """The functions under ``tools``, or under ``functions`` as older requests have them."""
    entries = body.get("tools") or body.get("functions") or []
    if not isinstance(entries, list):
        return ()
    functions = [entry.get("function", entry) for entry in entries if isinstance(entry, dict)]
    return tuple(
        Offered(name=function["name"], schema=function.get("parameters") or {})
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    )


def choice_in(body: Mapping[str, Any]) -> str:
    """``auto``, ``none``, ``required``, or the name of the tool that is to be called."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else "auto"
    return {"any": "required"}.get(str(choice), str(choice)) if choice else "auto"


def with_offered(
    scene: Scene, tools: tuple[Offered, ...], *, text: str, choice: str, is_parallel: bool
) -> Scene:
    """The scene with calls of the tools that were offered in place of its own, which the demo has
    no right to call; without any it says so."""
    has_calls = any(isinstance(part, ToolCall | ToolFailure) for part in scene.parts)
    if choice not in ("auto", "none"):
        has_calls = True
    if not has_calls:
        return scene
    words = tuple(
        part for part in scene.parts if not isinstance(part, ToolCall | ToolFailure | Message)
    )
    if not tools or choice == "none":
        return replace(scene, parts=(*words, Message(prose.NO_TOOLS)))
    fails = any(isinstance(part, ToolFailure) for part in scene.parts)
    calls = _calls(_called(tools, text, choice), fails=fails)
    return replace(
        scene,
        parts=(*words, Message(prose.TOOL_OUTSIDE), *(calls if is_parallel else calls[:1])),
    )


def _called(tools: tuple[Offered, ...], text: str, choice: str) -> list[Offered]:
    wanted = [tool for tool in tools if tool.name in (choice, *text.split())]
    return wanted or list(tools[:1])


def _calls(tools: list[Offered], *, fails: bool) -> list[Part]:
    calls: list[Part] = [
        ToolCall(tool=tool.name, arguments=arguments_for(tool.schema), output="") for tool in tools
    ]
    if fails:
        broken = ToolFailure(
            tool=tools[-1].name, reason="", broken_arguments='{"station": "upper", "notches": '
        )
        calls.append(broken)
    return calls


_EXAMPLES: Mapping[str, Any] = {
    "string": "Mill Bridge",
    "integer": 12,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def arguments_for(schema: Mapping[str, Any]) -> JsonObject:
    """Something that fits a schema: every required member, or all where none is."""
    properties = schema.get("properties")
    members = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = required if isinstance(required, list) and required else list(members)
    return {str(name): _example(members.get(name)) for name in names}


def _example(schema: object) -> Any:
    if not isinstance(schema, dict):
        return _EXAMPLES["string"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    return _EXAMPLES.get(str(schema.get("type")), _EXAMPLES["string"])
