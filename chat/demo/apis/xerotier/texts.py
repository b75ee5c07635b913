"""The texts of the demo's Xerotier. All invented: no river, table or study of them exists."""

WELCOME = """\
This is the demo of **Xerotier's** stream: chat completions with the provider's own events between \
the pieces of text. Choose a model to choose what happens: research, deep think, analyst, \
artifacts, a mockup, a question, a new branch.

The words `refuse`, `error`, `preempted`, `slow` and `cut` work with every one of them.
"""

REFUSAL = """\
I would rather leave that gate closed. Nothing is broken: this is a refusal, which arrives in a \
member of its own and not as text. Ask for something else and I will gladly go on.
"""

# --- research ----------------------------------------------------------------------------

PAGES = (
    "https://tides.example/mill-bridge/spring",
    "https://papers.example/surges-in-small-estuaries",
    "https://old-harbour.example/almanac",
)
RESEARCH = """\
**High water will be about 0.37 m above the usual mark**, and it will come in the evening.

The local table gives 2.31 m for the spring tide against 1.94 m on an ordinary day \
([tide table](https://tides.example/mill-bridge/spring)). A study of small estuaries finds that \
wind from the sea adds to that for about three hours after it has dropped \
([the study](https://papers.example/surges-in-small-estuaries)).

| | ordinary | spring tide |
| --- | ---: | ---: |
| level at Mill Bridge | 1.94 m | 2.31 m |
| path under the bridge | dry | under water |

The harbour's old almanac could not be read: its page is gone. What it would have said is not \
needed for the figures above.
"""

# --- deep think and analyst -----------------------------------------------------------------

PLAN = "Can the upper weir stay open through the winter?"
PARTS = (
    "Who inspects the weir, and how often?",
    "What did the last inspection find?",
    "How high does the river rise between November and March?",
    "What does it cost to close it for a month?",
)
CLAIMS = (
    "The hinges were replaced two years ago and showed no wear in spring.",
    "Three of the last ten winters brought more water than the gate was built for.",
    "Closing for January alone would have avoided all three.",
)
SECTIONS = [
    {"title": "State of the gate", "claims": [1], "confidence": 0.9},
    {"title": "Water in winter", "claims": [2, 3], "confidence": 0.7},
]
DEEP_THINK = """\
**Yes, with one exception.** The gate itself is sound; the water is the question.

1. The hinges are new, and the spring inspection found nothing to repair.
2. In three of the last ten winters more water came than the gate was built for, always in January.
3. Closing it for that month costs little, because the ferry does not run then anyway.

So: leave it open from November to December and from February on, and close it in January. If the \
gauge at Mill Bridge passes 2.6 m in another month, close it the same day.
"""

BRIEF = (
    "The team reads the gauge at Mill Bridge every morning at seven, keeps a table of spring tides "
    "since 2021, and is preparing a board for visitors."
)
ANALYST = """\
Your own notes answer this. You have read the gauge every morning since 2021, and the last twelve \
entries show the river rising by about two centimetres a day. The board for visitors that two of \
your artifacts sketch would be the natural place to show it.
"""

# --- artifacts ---------------------------------------------------------------------------------

ARTIFACT_FIRST = (
    "I will write that as a small file of its own, so that it can be kept and changed.\n"
)
ARTIFACT_SECOND = "\nThere is a case that it misses, so here is a second version:\n"
ARTIFACT_LAST = """
The second version also handles a gauge that says nothing. Both stay in the conversation; compare \
them to see what changed.
"""
ARTIFACT_AGAIN = "Here is the next version, with your remark at its end.\n"

PYTHON_VERSIONS = (
    '''\
"""Levels of a river at a gauge."""


def tidal_range(high: float, low: float) -> float:
    """Metres between high and low water."""
    return round(high - low, 2)


print(tidal_range(2.31, 1.94))
''',
    '''\
"""Levels of a river at a gauge."""


def tidal_range(high: float | None, low: float | None) -> float | None:
    """Metres between high and low water; nothing where a gauge was silent."""
    if high is None or low is None:
        return None
    return round(high - low, 2)


for high, low in [(2.31, 1.94), (2.12, None)]:
    print(tidal_range(high, low))
''',
)
HTML_VERSIONS = (
    """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Tide page</title></head>
<body>
<h1>Mill Bridge</h1>
<p>High water at 18:40, 2.31 m.</p>
</body>
</html>
""",
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Tide page</title>
<style>body { font: 18px system-ui; margin: 2rem; color: #23302f } strong { font-size: 2rem }</style>
</head>
<body>
<h1>Mill Bridge</h1>
<p>High water at 18:40, <strong>2.31 m</strong>.</p>
<p>Low water at 12:20, 1.94 m.</p>
</body>
</html>
""",
)
# By whether the artifact is a page.
LATER_LINE = {False: "\n# Looked at again in turn {number}.\n", True: "<!-- turn {number} -->\n"}

# --- mockups -----------------------------------------------------------------------------------

MOCKUP_FIRST = "A board for visitors needs a page, a style, a script and a picture. One moment:\n"
MOCKUP_MADE = """
The board is ready: bundle `{bundle_id}`. Write again, whatever you like, and I will change it: \
some files are replaced, one is added, one goes.
"""
MOCKUP_CHANGING = "I will add a night view and take the notes away.\n"
MOCKUP_CHANGED = """
Done. The page and its script were replaced; the style and the picture are as they were.
"""

# --- questions -----------------------------------------------------------------------------------

BEFORE_ONE = (
    "Before I look up the ferry I need to know one thing. It decides which landing you walk to, and "
    "they lie twenty minutes apart."
)
ASK_ONE = (
    {
        "question": "From which bank do you start?",
        "options": [
            {"value": "left", "label": "Left bank", "description": "by the mill"},
            {"value": "right", "label": "Right bank", "description": "by the old weir"},
        ],
        "allowFreeText": True,
        "multiSelect": False,
        "style": "buttons",
    },
)
BEFORE_TWO = "Two things are open before I can plan the trip."
ASK_TWO = (
    {
        "question": "Which days suit you?",
        "options": ["Friday", "Saturday", "Sunday"],
        "allowFreeText": False,
        "multiSelect": True,
        "style": "checkboxes",
    },
    {"question": "Is there anything that you must not miss?", "allowFreeText": True},
)
BEFORE_FORM = "Please fill in this form, then I can book the boat."
ASK_FORM = (
    {
        "question": "Who is coming along?",
        "allowFreeText": False,
        "style": "form",
        "fields": [
            {"name": "name", "label": "Name of the group", "type": "text", "required": True},
            {"name": "people", "label": "How many people", "type": "number", "required": True},
            {
                "name": "boat",
                "label": "Kind of boat",
                "type": "select",
                "options": ["Punt", "Rowing boat", "Barge"],
            },
        ],
    },
)
ALL_QUESTIONS = tuple(
    question["question"] for asked in (ASK_ONE, ASK_TWO, ASK_FORM) for question in asked
)
AFTER_REPLIES = """\
Thank you, that is all I needed. You said:

{replies}

The ferry leaves at 9:15 and at 11:40 and takes twenty minutes. I would take the first one: the \
light is better on the water, and the path under the bridge is still dry.
"""

# --- branches ------------------------------------------------------------------------------------

FORK = """\
This question leads somewhere else, so the server opened a branch for it and gave it a name. What \
was said before stays as it was, like the river above the fork.

At the end of this stream come figures that only the provider's own dashboard sends: the ids under \
which it keeps the turn, how its context was filled, and a second count of tokens, which includes \
what was looked up. They are in the details of this answer.
"""
