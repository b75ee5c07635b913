"""Notes say what a request leaves out or overrules, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from chat import dialects
from chat.dialects.base import ToolDefinition
from tests.dialects.prompts import body_and_notes

TIDE = (ToolDefinition(name="tide"),)
NO_TOOLS = "The parameter {} was left out: no tools are enabled."
OVERRULED = (
    "The additional field {} from the server’s settings was overruled: the request has its own."
)
NEVER = "The additional field {} from the server’s settings was left out: it can’t be set there."
NO_SUCH_VALUE = "The parameter {} was left out: this server accepts no such value."


def of(server: str, **options: object) -> dict[str, object]:
    return {"extras": server, **options}


# Dialect, what the prompt has, the members that it changes (None: left out), and the notes.
NOTED: list[tuple[str, dict[str, Any], dict[str, object], list[str]]] = [
    # Nothing is left out.
    ("openai_chat", {"parameters": {"tool_choice": "auto"}, "tools": TIDE}, {}, []),
    ("openai_chat", {"parameters": {"logprobs": False}}, {"logprobs": False}, []),
    ("anthropic_messages", {"parameters": {"parallel_tools": True}, "tools": TIDE}, {}, []),
    # Tools.
    (
        "openai_chat",
        {"parameters": {"tool_choice": "required", "parallel_tool_calls": False}},
        {"tool_choice": None, "parallel_tool_calls": None},
        [NO_TOOLS.format("tool_choice"), NO_TOOLS.format("parallel_tool_calls")],
    ),
    (
        "openai_chat",
        {
            "parameters": {"tool_choice": "tide", "parallel_tool_calls": False},
            "tools": TIDE,
            "options": {"legacy_functions": True},
        },
        {"tool_choice": None, "parallel_tool_calls": None},
        [
            "The parameter tool_choice was left out: legacy function calls don’t have it.",
            "The parameter parallel_tool_calls was left out: legacy function calls don’t have it.",
        ],
    ),
    (
        "openai_responses",
        {"parameters": {"tool_choice": "auto", "parallel_tool_calls": True}},
        {"tool_choice": None, "parallel_tool_calls": None},
        [NO_TOOLS.format("tool_choice"), NO_TOOLS.format("parallel_tool_calls")],
    ),
    (
        "anthropic_messages",
        {"parameters": {"tool_choice": "any", "tool_name": "tide", "parallel_tools": False}},
        {"tool_choice": None},
        [NO_TOOLS.format(name) for name in ("tool_choice", "tool_name", "parallel_tools")],
    ),
    (
        "anthropic_messages",
        {"parameters": {"tool_choice": "none", "tool_name": "tide"}, "tools": TIDE},
        {"tool_choice": {"type": "tool", "name": "tide"}},
        ["The parameter tool_choice was left out: the tool tide is required."],
    ),
    # Parameters that exclude or need each other.
    (
        "openai_chat",
        {
            "parameters": {"reasoning_effort": "high", "reasoning_budget": 4096},
            "options": of("fireworks"),
        },
        {"reasoning_effort": 4096},
        [
            "The parameter reasoning_effort was left out: it can’t be combined with "
            "reasoning_budget."
        ],
    ),
    (
        "openai_completions",
        {
            "parameters": {"reasoning_budget": 4096, "reasoning_effort": "high"},
            "options": of("fireworks"),
        },
        {"reasoning_effort": 4096},
        [
            "The parameter reasoning_effort was left out: it can’t be combined with "
            "reasoning_budget."
        ],
    ),
    (
        "openai_chat",
        {
            "parameters": {"reasoning_effort": "high", "reasoning_budget": 4096},
            "options": of("openrouter"),
        },
        {"reasoning_effort": None, "reasoning": {"max_tokens": 4096}},
        [
            "The parameter reasoning_effort was left out: it can’t be combined with "
            "reasoning_budget."
        ],
    ),
    (
        "openai_chat",
        {
            "parameters": {"reasoning_effort": "high", "reasoning_budget": 4096},
            "options": of("friendli"),
        },
        {"reasoning_effort": "high", "reasoning_budget": 4096},
        [],
    ),
    (
        "openai_chat",
        {"parameters": {"logprobs": False, "top_logprobs": 3}},
        {"logprobs": False, "top_logprobs": None},
        ["The parameter top_logprobs was left out: log probabilities are turned off."],
    ),
    (
        "openai_chat",
        {"parameters": {"response_format": "json_object", "response_schema": {"type": "object"}}},
        {"response_format": {"type": "json_object"}},
        ["The JSON schema was left out because the response format isn’t “JSON schema”."],
    ),
    (
        "openai_completions",
        {"parameters": {"response_schema": {"type": "object"}}},
        {"response_format": None},
        ["The JSON schema was left out because the response format isn’t “JSON schema”."],
    ),
    (
        "openai_completions",
        {
            "options": {
                "prompt_template": "custom",
                "custom_template": "[user]\nQ {text}\n[assistant]\nA {text}\n[stop]\na\nb\nc\nd\ne",
            }
        },
        {"stop": ["a", "b", "c", "d"]},
        ["Only the first 4 of the template’s 5 stop sequences were sent."],
    ),
    (
        "anthropic_messages",
        {"parameters": {"thinking_budget": 2048, "thinking_display": "omitted"}},
        {"thinking": None},
        [
            "The parameter thinking_budget was left out: it applies only to enabled thinking.",
            "The parameter thinking_display was left out: it applies only to thinking.",
        ],
    ),
    (
        "anthropic_messages",
        {"parameters": {"thinking": "adaptive", "thinking_budget": 2048}},
        {"thinking": {"type": "adaptive"}},
        ["The parameter thinking_budget was left out: it applies only to enabled thinking."],
    ),
    (
        "anthropic_messages",
        {"parameters": {"thinking": "enabled"}, "model_detail": {"max_tokens": 1024}},
        {"thinking": None, "max_tokens": 1024},
        ["Thinking was turned off because max tokens leaves no room for it."],
    ),
    (
        "anthropic_messages",
        {
            "parameters": {"thinking": "enabled", "thinking_budget": 50_000},
            "model_detail": {"max_tokens": 32_000},
        },
        {"thinking": {"type": "enabled", "budget_tokens": 31_999}},
        ["The thinking budget was lowered to 31999: it must be below max tokens."],
    ),
    (
        "bitseek",
        {"parameters": {"web_search_results": 3, "web_search_language": "en"}},
        {"webSearch": None},
        [
            "The parameter web_search_results was left out: the web search is off.",
            "The parameter web_search_language was left out: the web search is off.",
        ],
    ),
    # Limits of a kind of server.
    (
        "openai_chat",
        {"parameters": {"top_k": 500, "top_logprobs": 20}, "options": of("fireworks")},
        {"top_k": 100, "top_logprobs": 5},
        [
            "The parameter top_k was set to 100, the nearest allowed value.",
            "The parameter top_logprobs was set to 5, the nearest allowed value.",
        ],
    ),
    (
        "openai_completions",
        {"parameters": {"top_k": 500}, "options": of("fireworks")},
        {"top_k": 100},
        ["The parameter top_k was set to 100, the nearest allowed value."],
    ),
    (
        "openai_chat",
        {"parameters": {"top_k": 500, "top_logprobs": 20}, "options": of("vllm")},
        {"top_k": 500, "top_logprobs": 20},
        [],
    ),
    *(
        (
            dialect,
            {"parameters": {"reasoning_effort": effort}, "options": of(server)},
            {"reasoning_effort": effort if is_sent else None},
            [] if is_sent else [NO_SUCH_VALUE.format("reasoning_effort")],
        )
        for dialect, server, effort, is_sent in [
            ("openai_chat", "none", "minimal", True),
            ("openai_chat", "vllm", "minimal", True),
            ("openai_chat", "openrouter", "minimal", True),
            ("openai_chat", "fireworks", "minimal", False),
            ("openai_completions", "fireworks", "minimal", False),
            ("openai_chat", "fireworks", "none", True),
            ("openai_chat", "deepseek", "none", False),
            ("openai_chat", "mistral", "medium", False),
            ("openai_chat", "mistral", "high", True),
        ]
    ),
    *(
        (
            "anthropic_messages",
            {"parameters": {"effort": effort}, "options": {"server": server}},
            {"output_config": {"effort": effort} if is_sent else None},
            [] if is_sent else [NO_SUCH_VALUE.format("effort")],
        )
        for server, effort, is_sent in [
            ("friendli", "minimal", True),
            ("anthropic", "minimal", False),
            ("fireworks", "minimal", False),
            ("fireworks", "xhigh", False),
            ("anthropic", "xhigh", True),
        ]
    ),
    # Fields that the server's settings add.
    *(
        (
            dialect,
            {"options": {"extra_body": {"echo": True, "store": False, "stream_options": {}}}},
            {"echo": None, "store": False},
            [NEVER.format("echo"), NEVER.format("stream_options")],
        )
        for dialect in (
            *("openai_chat", "openai_completions", "openai_responses", "anthropic_messages"),
            *("bitseek", "xerotier"),
        )
    ),
    ("openai_chat", {"options": {"extra_body": {"temperature": 1}}}, {"temperature": 1}, []),
    (
        "openai_chat",
        {"options": {"extra_body": {"temperature": 1}}, "parameters": {"temperature": 0.5}},
        {"temperature": 0.5},
        [OVERRULED.format("temperature")],
    ),
    (
        "openai_chat",
        {
            "options": of("vllm", extra_body={"chat_template_kwargs": {"enable_thinking": False}}),
            "parameters": {"thinking": "enabled"},
        },
        {"chat_template_kwargs": {"enable_thinking": True}},
        [OVERRULED.format("chat_template_kwargs")],
    ),
    (
        "openai_responses",
        {
            "options": {"extra_body": {"reasoning": {"mode": "pro", "effort": "low"}}},
            "parameters": {"reasoning_effort": "high"},
        },
        {"reasoning": {"mode": "pro", "effort": "high"}},
        [OVERRULED.format("reasoning")],
    ),
    (
        "openai_responses",
        {
            "options": {"extra_body": {"reasoning": {"mode": "pro"}, "user": "team"}},
            "parameters": {"reasoning_effort": "high"},
        },
        {"reasoning": {"mode": "pro", "effort": "high"}, "user": "team"},
        [],
    ),
    (
        "anthropic_messages",
        {
            "options": {"extra_body": {"service_tier": "auto", "max_tokens": 9, "system": "x"}},
            "parameters": {"max_tokens": 50},
        },
        {"service_tier": "auto", "max_tokens": 50, "system": None},
        [OVERRULED.format("max_tokens"), NEVER.format("system")],
    ),
    (
        "anthropic_messages",
        {"options": {"extra_body": [1]}},
        {},
        [
            "The additional fields from the server’s settings were left out: they aren’t a JSON object."
        ],
    ),
    (
        "anthropic_messages",
        {"options": {"metadata": [1]}},
        {"metadata": None},
        ["The metadata from the server’s settings was left out: it isn’t a JSON object."],
    ),
    (
        "anthropic_messages",
        {"options": {"server_tools": {"type": "web_search_20250305"}, "mcp_servers": {"url": "u"}}},
        {"tools": [{"type": "web_search_20250305"}], "mcp_servers": [{"url": "u"}]},
        [],
    ),
    # Modes.
    (
        "xerotier",
        {
            "options": {"modes": {"deep": {"temperature": 1, "depth": 2}}},
            "parameters": {"mode": "deep", "temperature": 0.5},
        },
        {"temperature": 1, "depth": 2},
        ["The chosen mode changed the field temperature of the request."],
    ),
    (
        "xerotier",
        {
            "options": {"extra_body": {"web_search_options": {"search_context_size": "low"}}},
            "parameters": {"search_context_size": "high"},
        },
        {"web_search_options": {"search_context_size": "high"}},
        [OVERRULED.format("web_search_options")],
    ),
    # Unknown parameters.
    (
        "openai_chat",
        {"parameters": {"echo": True}},
        {"echo": None},
        ["The parameter echo was left out: this API type has no such parameter."],
    ),
]


def test_what_is_left_out_is_noted(subtests: pytest.Subtests) -> None:
    for dialect, members, expected, notes in NOTED:
        with subtests.test(dialect=dialect, **members):
            body, found = body_and_notes(dialects.get(dialect), **members)

            assert {name: body.get(name) for name in expected} == expected
            assert list(found) == notes
