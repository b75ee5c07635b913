"""The definitions of the two tools as models get them, in English as those of other tools are."""

from __future__ import annotations

from chat.events import JsonObject

SEARCH_NAME = "web_search"
PAGE_NAME = "read_page"
# Characters of a query; the services refuse longer ones.
QUERY_CHARACTERS = 400
MOST_RESULTS = 10

SEARCH_DESCRIPTION = (
    "Searches the web, and returns titles, addresses and extracts of pages. Use it for facts that may have changed "
    "or that you don't know. Name the addresses that your answer is based on."
)
SEARCH_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What to search for, in a few words",
            "maxLength": QUERY_CHARACTERS,
        },
        "count": {
            "type": "integer",
            "description": "How many results; 5 if left out",
            "minimum": 1,
            "maximum": MOST_RESULTS,
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
PAGE_DESCRIPTION = (
    "Reads a public web page, and returns its text. Use it for an address that the user gives or a search has found. "
    "The text of a long page comes in parts."
)
PAGE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "The address, with http:// or https://"},
        "start": {
            "type": "integer",
            "description": "Where to go on reading, as the part before says",
            "minimum": 0,
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}
