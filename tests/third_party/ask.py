"""Asks the third-party server with OpenAI's own client, as a reference for what it streams.

Runs in that server's virtual environment. Standard input holds ``{"base_url": …, "body": …}``, standard
output gets the answer as this client understood it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from openai import OpenAI
from openai.types.chat import ChatCompletionChunk


def main() -> None:
    asked = json.load(sys.stdin)
    client = OpenAI(base_url=asked["base_url"], api_key="none", max_retries=0)
    answer = gather(client.chat.completions.create(**asked["body"], stream=True))
    json.dump(answer, sys.stdout)


def gather(chunks: Iterable[ChatCompletionChunk]) -> dict[str, object]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, str]] = []
    answer: dict[str, object] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts.append(choice.delta.content or "")
            thoughts.append(getattr(choice.delta, "reasoning_content", None) or "")
            calls += [call.function.model_dump() for call in choice.delta.tool_calls or []]
            answer["finish_reason"] = choice.finish_reason
        if chunk.usage:
            answer["input_tokens"] = chunk.usage.prompt_tokens
            answer["output_tokens"] = chunk.usage.completion_tokens
    return answer | {"text": "".join(texts), "reasoning": "".join(thoughts), "calls": calls}


if __name__ == "__main__":
    main()
