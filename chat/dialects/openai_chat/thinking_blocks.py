"""LiteLLM's ``thinking_blocks``: Anthropic's reasoning with its signature, in chat completions."""

from chat.dialects.stream import text_of
from chat.events import JsonObject

MEMBER = "thinking_blocks"


class ThinkingBlocks:
    """While streaming, each delta is a block without a signature; the signed one at the end repeats the
    whole text, or has none."""

    def __init__(self) -> None:
        self._signed: list[JsonObject] = []
        self._texts: list[str] = []

    def add_blocks(self, blocks: list[JsonObject]) -> str:
        """Returns the text that is new."""
        return "".join(map(self._take, blocks))

    def native(self) -> list[JsonObject]:
        """The blocks that the next request sends back: the API refuses those without a signature."""
        return self._signed

    def _take(self, block: JsonObject) -> str:
        text = text_of(block, "thinking")
        if block.get("type") == "redacted_thinking":
            self._signed.append(block)
            return ""
        if not block.get("signature"):
            self._texts.append(text)
            return text
        received = "".join(self._texts)
        self._texts = []
        self._signed.append({**block, "thinking": text or received})
        return text[len(received) :] if text.startswith(received) else ""
