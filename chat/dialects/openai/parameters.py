"""What can be asked of OpenAI-like servers beside the words, and which server knows what of it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from chat.dialects.base import Parameter, ToolDefinition
from chat.events import Json, JsonObject

# OpenAI's limit; the others accept at least as many.
MOST_STOP_TEXTS = 4

# --- what every server of this family knows -----------------------------------------

TEMPERATURE = Parameter(
    name="temperature",
    label="Temperature",
    kind="number",
    minimum=0,
    maximum=2,
    step=0.05,
    help="0 gives the likeliest words, 2 the most varied.",
)
TOP_P = Parameter(name="top_p", label="Top p", kind="number", minimum=0, maximum=1, step=0.05)
SEED = Parameter(
    name="seed",
    label="Seed",
    kind="integer",
    minimum=-(2**53),
    maximum=2**53,
    help="The same seed gives the same answer, where the server supports it.",
)
PENALTIES = tuple(
    Parameter(
        name=f"{name}_penalty",
        label=f"{name.capitalize()} penalty",
        kind="number",
        minimum=-2,
        maximum=2,
        step=0.1,
    )
    for name in ("frequency", "presence")
)
STOP = Parameter(
    name="stop",
    label="Stop at",
    kind="text",
    help="Up to four texts, one on each line, before which the answer ends.",
)
ALTERNATIVES = Parameter(
    name="n",
    label="Answers at once",
    kind="integer",
    minimum=1,
    maximum=8,
    help="Several answers to the same message, each paid for. Not every server can.",
)
REASONING_EFFORT = Parameter(
    name="reasoning_effort",
    label="Reasoning effort",
    kind="choice",
    choices=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    help="Models accept different values.",
)
RESPONSE_FORM = (
    Parameter(
        name="response_format",
        label="Form of the answer",
        kind="choice",
        choices=("text", "json_object", "json_schema"),
        help="The form “json schema” needs the schema below.",
    ),
    Parameter(
        name="response_schema",
        label="Schema of the answer",
        kind="json",
        help="A JSON Schema of type object, for the form “json schema”.",
    ),
)
CHAT_ONLY = (
    ALTERNATIVES,
    Parameter(
        name="tool_choice",
        label="Use of tools",
        kind="text",
        help="auto, none, required, or the name of the one tool to be used. Counts only where "
        "tools are switched on.",
    ),
    Parameter(
        name="parallel_tool_calls",
        label="Several tool calls at once",
        kind="boolean",
        help="Counts only where tools are switched on.",
    ),
    *RESPONSE_FORM,
    Parameter(
        name="logprobs",
        label="Log probabilities",
        kind="boolean",
        help="How likely each token was, in the details of the answer.",
    ),
    Parameter(
        name="top_logprobs",
        label="Likeliest other tokens",
        kind="integer",
        minimum=0,
        maximum=20,
        help="For each token; asks for log probabilities, too. Some servers allow 5.",
    ),
    Parameter(
        name="service_tier",
        label="Service tier",
        kind="choice",
        choices=("auto", "default", "flex", "priority"),
        help="Where the provider sells several speeds.",
    ),
)

# --- what only some know ------------------------------------------------------------

_ONLY_SOME = "Sent only where the server's settings say that it knows this."
EXTRA_PARAMETERS = (
    Parameter(
        name="top_k", label="Top k", kind="integer", minimum=0, maximum=1000, help=_ONLY_SOME
    ),
    Parameter(
        name="min_p",
        label="Min p",
        kind="number",
        minimum=0,
        maximum=1,
        step=0.01,
        help=_ONLY_SOME,
    ),
    Parameter(
        name="typical_p",
        label="Typical p",
        kind="number",
        minimum=0,
        maximum=1,
        step=0.05,
        help=_ONLY_SOME,
    ),
    Parameter(
        name="repetition_penalty",
        label="Repetition penalty",
        kind="number",
        minimum=0,
        maximum=2,
        step=0.05,
        help=f"1 is none. {_ONLY_SOME}",
    ),
    Parameter(
        name="min_tokens",
        label="Shortest answer",
        kind="integer",
        minimum=0,
        maximum=1_000_000,
        help=f"In tokens. {_ONLY_SOME}",
    ),
    Parameter(
        name="mirostat_target",
        label="Mirostat target",
        kind="number",
        minimum=0,
        maximum=20,
        step=0.1,
        help=_ONLY_SOME,
    ),
    Parameter(
        name="mirostat_lr",
        label="Mirostat learning rate",
        kind="number",
        minimum=0,
        maximum=1,
        step=0.01,
        help=_ONLY_SOME,
    ),
    Parameter(
        name="thinking",
        label="Thinking",
        kind="choice",
        choices=("enabled", "disabled"),
        help=f"For models that can do either. {_ONLY_SOME}",
    ),
    Parameter(
        name="reasoning_budget",
        label="Longest reasoning",
        kind="integer",
        minimum=1024,
        maximum=1_000_000,
        help=f"In tokens. {_ONLY_SOME}",
    ),
    Parameter(
        name="reasoning_history",
        label="Earlier reasoning",
        kind="choice",
        choices=("disabled", "interleaved", "preserved"),
        help=f"What the model sees of its own earlier reasoning. {_ONLY_SOME}",
    ),
    Parameter(
        name="context_length_exceeded_behavior",
        label="When the context is full",
        kind="choice",
        choices=("truncate", "error"),
        help=_ONLY_SOME,
    ),
)
_EXTRA_NAMES = frozenset(parameter.name for parameter in EXTRA_PARAMETERS)

_SAMPLING = {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repetition_penalty"}
_TEMPLATE_THINKING = {"thinking": "chat_template_kwargs.enable_thinking"}
# Our name of a parameter, to the member (dots: of a member) under which the server knows it.
SERVERS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "vllm": {**_SAMPLING, **_TEMPLATE_THINKING, "min_tokens": "min_tokens"},
    "llama_cpp": {
        "top_k": "top_k",
        "min_p": "min_p",
        "typical_p": "typical_p",
        "repetition_penalty": "repeat_penalty",
        **_TEMPLATE_THINKING,
    },
    "lm_studio": {"top_k": "top_k", "repetition_penalty": "repeat_penalty"},
    "openrouter": {
        **_SAMPLING,
        "thinking": "reasoning.enabled",
        "reasoning_budget": "reasoning.max_tokens",
    },
    "fireworks": {
        **_SAMPLING,
        "typical_p": "typical_p",
        "mirostat_target": "mirostat_target",
        "mirostat_lr": "mirostat_lr",
        "thinking": "thinking.type",
        # A number in place of the word.
        "reasoning_budget": "reasoning_effort",
        "reasoning_history": "reasoning_history",
        "context_length_exceeded_behavior": "context_length_exceeded_behavior",
    },
    "friendli": {
        **_SAMPLING,
        **_TEMPLATE_THINKING,
        "min_tokens": "min_tokens",
        "reasoning_budget": "reasoning_budget",
    },
    "deepseek": {"thinking": "thinking.type"},
    "mistral": {"seed": "random_seed"},
}
EXTRAS = Parameter(
    name="extras",
    label="Kind of server",
    kind="choice",
    choices=tuple(SERVERS),
    default="none",
    help="Decides which further parameters are sent, and under which names.",
)
EXTRA_MEMBERS = Parameter(
    name="extra_members",
    label="Further parameters",
    kind="text",
    help="Names of parameters that this server knows as well, with commas between them: "
    + ", ".join(parameter.name for parameter in EXTRA_PARAMETERS)
    + ".",
)
EXTRA_BODY = Parameter(
    name="extra_body",
    label="Further members of every request",
    kind="json",
    help='A JSON object, such as {"provider": {"sort": "price"}}. What a person chooses for a '
    "message wins over it.",
)
STREAM_OPTIONS = Parameter(
    name="stream_options",
    label="Ask for token counts",
    kind="boolean",
    default=True,
    help="Some local servers refuse the member stream_options.",
)
PERF_METRICS = Parameter(
    name="perf_metrics",
    label="Ask for performance figures",
    kind="boolean",
    default=False,
    help="Fireworks gives them at the end of the answer, for its details.",
)
INLINE_THINK = Parameter(
    name="inline_think",
    label="Thinking inside the text",
    kind="choice",
    choices=("auto", "off", "assume_open"),
    default="auto",
    help="How <think> tags at the start of an answer are read. Choose “assume open” where "
    "only the closing tag arrives.",
)

# --- to the wire ----------------------------------------------------------------------

NOT_KNOWN = (
    "The parameter {name} was left out: the server's settings do not say that it knows this."
)
_NEVER_ADDED = frozenset(
    ("model", "messages", "prompt", "input", "stream", "stream_options", "echo")
)


def added_members(options: Mapping[str, object]) -> JsonObject:
    """What the upstream's settings add to every request. They cannot replace the conversation."""
    members = options.get("extra_body")
    if not isinstance(members, dict):
        return {}
    return {name: value for name, value in members.items() if name not in _NEVER_ADDED}


def place(
    body: JsonObject,
    parameters: Mapping[str, object],
    options: Mapping[str, object],
    *,
    few_know: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> list[str]:
    """Puts the parameters under the names of this kind of server; a sentence for each that it
    does not know and that is therefore left out. ``few_know`` names further parameters that
    only these kinds of server know."""
    server = str(options["extras"])
    added = {name.strip() for name in str(options.get("extra_members") or "").split(",")}
    notes = []
    for name, value in parameters.items():
        is_rare = name in few_know and server not in few_know[name]
        is_unknown = name in _EXTRA_NAMES and name not in SERVERS[server]
        if (is_rare or is_unknown) and name not in added:
            notes.append(NOT_KNOWN.format(name=name))
        else:
            _set(body, SERVERS[server].get(name, name), value)
    return notes


def _set(body: JsonObject, path: str, value: Json) -> None:
    outer, _, inner = path.rpartition(".")
    if not outer:
        body[path] = value
        return
    if value in ("enabled", "disabled") and inner != "type":
        value = value == "enabled"
    earlier = body.get(outer)
    body[outer] = {**(earlier if isinstance(earlier, dict) else {}), inner: value}


def stop_texts(value: object, *, room: int = MOST_STOP_TEXTS) -> tuple[list[str], list[str]]:
    """The lines of a parameter as stop texts, and a note where there were too many."""
    texts = list(dict.fromkeys(line for line in str(value or "").splitlines() if line))
    if len(texts) <= room:
        return texts, []
    return texts[:room], [f"Only the first {room} of {len(texts)} stop texts were sent."]


def place_logprobs(parameters: dict[str, object]) -> None:
    """Other likely tokens are only to be had with log probabilities, and not without."""
    if parameters.get("logprobs") is False:
        parameters.pop("top_logprobs", None)
    elif parameters.get("top_logprobs") is not None:
        parameters["logprobs"] = True


def response_format(kind: object, schema: object) -> tuple[JsonObject | None, list[str]]:
    """The member ``response_format``, and a note where it cannot be made."""
    if kind is None:
        return None, []
    if kind != "json_schema":
        return {"type": kind}, []
    if not isinstance(schema, dict):
        return None, ["The form json_schema was left out: there is no schema with it."]
    wanted = {"name": "answer", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": wanted}, []


# --- tools ------------------------------------------------------------------------------

_CHOICES = ("auto", "none", "required", "any")


def wire_tools(tools: Sequence[ToolDefinition]) -> list[JsonObject]:
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def legacy_functions(tools: Sequence[ToolDefinition]) -> list[JsonObject]:
    return [_function(tool) for tool in tools]


def _function(tool: ToolDefinition) -> JsonObject:
    schema = tool.schema or {"type": "object", "properties": {}}
    function: JsonObject = {"name": tool.name, "parameters": schema}
    return {**function, "description": tool.description} if tool.description else function


def tool_choice(
    value: object, tools: Sequence[ToolDefinition], options: Mapping[str, object]
) -> tuple[Json, list[str]]:
    """The member ``tool_choice``, and a note where it names a tool that is not there."""
    word = str(value or "").strip()
    if not word:
        return None, []
    if word.lower() in _CHOICES:
        return _choice_word(word.lower(), options), []
    if any(tool.name == word for tool in tools):
        return {"type": "function", "function": {"name": word}}, []
    return None, ["The choice of a tool was left out: no tool that is switched on has that name."]


def _choice_word(word: str, options: Mapping[str, object]) -> str:
    """Two words for the same: OpenAI says ``required``, Mistral only understands ``any``."""
    if word in ("required", "any"):
        return "any" if options.get("extras") == "mistral" else "required"
    return word
