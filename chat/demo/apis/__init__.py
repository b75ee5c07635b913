"""The APIs of the demo, one for each kind of server."""

from chat.demo.apis import (
    anthropic,
    bitseek,
    lmstudio,
    openai,
    openai_completions,
    responses,
    xerotier,
)

APIS = (
    lmstudio.api,
    openai.api,
    openai_completions.api,
    bitseek.api,
    anthropic.api,
    responses.api,
    xerotier.api,
)
