"""What a person may choose for a Messages request, and what is set once for an upstream."""

from chat.dialects.base import Parameter

# Of the answer; the API wants a limit, and every model of the last years allows this much.
DEFAULT_MAX_TOKENS = 8192
LEAST_THINKING_TOKENS = 1024

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        name="max_tokens",
        label="Longest answer",
        kind="integer",
        minimum=1,
        maximum=1_000_000,
        help=f"In tokens, thinking included. {DEFAULT_MAX_TOKENS} where nothing is chosen.",
    ),
    Parameter(
        name="thinking",
        label="Thinking",
        kind="choice",
        choices=("enabled", "adaptive", "disabled"),
        help="Enabled thinks within a budget; adaptive lets the model decide. Models differ.",
    ),
    Parameter(
        name="thinking_budget",
        label="Thinking budget",
        kind="integer",
        minimum=LEAST_THINKING_TOKENS,
        maximum=1_000_000,
        help="In tokens; only with thinking enabled.",
    ),
    Parameter(
        name="thinking_display",
        label="Thinking shown",
        kind="choice",
        choices=("summarized", "omitted"),
        help="Omitted: the model thinks, and only its signature comes back.",
    ),
    Parameter(
        name="effort",
        label="Effort",
        kind="choice",
        choices=("minimal", "low", "medium", "high", "xhigh", "max", "ultracode"),
        help="Models and servers accept different values.",
    ),
    Parameter(
        name="temperature",
        label="Temperature",
        kind="number",
        minimum=0,
        maximum=1,
        step=0.05,
        help="0 gives the likeliest words. Anthropic's newest models take none.",
    ),
    Parameter(name="top_p", label="Top p", kind="number", minimum=0, maximum=1, step=0.05),
    Parameter(
        name="top_k",
        label="Top k",
        kind="integer",
        minimum=0,
        maximum=100_000,
        help="How many of the likeliest words are considered.",
    ),
    Parameter(
        name="stop_sequences",
        label="Stop at",
        kind="lines",
        help="Texts, one on each line, before which the answer ends.",
    ),
    Parameter(
        name="tool_choice",
        label="Use of tools",
        kind="choice",
        choices=("auto", "any", "none"),
        help="Any: the model must call a tool. Only where tools are on.",
    ),
    Parameter(
        name="tool_name",
        label="Tool to be called",
        kind="text",
        help="The name of the one tool that the model must call.",
    ),
    Parameter(
        name="parallel_tools",
        label="Several tools at once",
        kind="boolean",
        help="Off: one call at a time.",
    ),
)

OPTIONS: tuple[Parameter, ...] = (
    Parameter(
        name="server",
        label="Kind of server",
        kind="choice",
        choices=("other", "anthropic", "friendli", "fireworks"),
        default="other",
        help="What the server takes: which parameters, and which parts of earlier answers.",
    ),
    Parameter(
        name="auth",
        label="How the key is sent",
        kind="choice",
        choices=("auto", "x-api-key", "bearer"),
        default="auto",
        help="Auto: as x-api-key to Anthropic and with keys of theirs, else as a bearer token.",
    ),
    Parameter(
        name="version",
        label="API version",
        kind="text",
        default="2023-06-01",
        help="Sent as the header anthropic-version.",
    ),
    Parameter(
        name="beta",
        label="Beta features",
        kind="text",
        help="Names with commas between them, sent as the header anthropic-beta.",
    ),
    Parameter(
        name="friendli_team",
        label="Friendli team",
        kind="text",
        help="Sent as the header X-Friendli-Team.",
    ),
    Parameter(
        name="server_tools",
        label="Tools of the server",
        kind="json",
        help='A list as the API documents it, such as [{"type": "web_search_20250305", "name": '
        '"web_search", "max_uses": 5}].',
    ),
    Parameter(
        name="mcp_servers",
        label="MCP servers",
        kind="json",
        is_secret=True,
        help="A list as the API documents it, with their tokens. It is a beta feature.",
    ),
    Parameter(
        name="cache",
        label="Cache the prompt",
        kind="boolean",
        default=False,
        help="Asks the server to keep what conversations have in common (cache_control).",
    ),
    Parameter(
        name="metadata",
        label="Metadata",
        kind="json",
        help='Sent with every request, such as {"user_id": "a-team-without-names"}.',
    ),
)
