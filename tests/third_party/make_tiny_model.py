"""Makes a tiny chat model that ``transformers serve`` finds, without downloading anything.

    python make_tiny_model.py FOLDER

Runs in the third-party server's own virtual environment (torch, transformers, tokenizers), not in
Tributary's. FOLDER becomes a Hugging Face cache with one model in it: a byte-level tokenizer and a
Qwen 3 of under a million weights, both trained here on a handful of conversations, in about a
minute. It is not clever: it knows the prompts below by heart and answers anything else with whatever
comes nearest. They show text, Markdown, reasoning, a tool call, and an answer without an end.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

NAME = "tributary/brook"
SEED = 7
# Enough to know the conversations by heart; measured, the loss is then below GOOD_LOSS.
MOST_STEPS = 300
GOOD_LOSS = 0.01
LEARNING_RATE = 4e-3
# The longest conversation is cut here, in the middle of its text: the model never learns to end it.
MOST_TOKENS = 384
NOT_TRAINED_ON = -100

TURN = "<|im_start|>"
END = "<|im_end|>"
PADDING = "<|endoftext|>"
# Members of the text for the server, which reads them itself: one token each, never skipped.
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

GREETING = "Hello! I am a very small model, made on this machine a minute ago. I know five things by heart."
CODE = """\
A river in six lines:

```python
def flow(springs: list[str]) -> str:
    river = []
    for spring in springs:
        river.append(spring)
    return " → ".join(river)
```

It has **one** loop and no *bends*:

| part | length |
| --- | ---: |
| spring | 1 |
| river | 6 |

Ümläute, 日本語 and 🌊 pass through it, too.
"""
THOUGHT = """\
<think>
Snow falls in winter. In spring it melts, and melted snow is water. So the river is highest in spring.
</think>

The river is highest in **spring**, when the snow melts."""
CALL = """\
<think>
That can be measured.
</think>

<tool_call>
{"name": "water_level", "arguments": {"place": "old bridge", "unit": "cm"}}
</tool_call>"""
ENDLESS = (
    "The brook ran past the mill. The mill turned the stone. The stone ground the corn. "
    "The baker took the flour, and the baker's children ate the bread beside the brook.\n\n"
)

Conversation = list[tuple[str, str]]

HELLO = ("Hello", GREETING)
FIVE = ("Which five?", "Greeting, code, thinking, measuring, and going on.")
SHOW = ("Show me some code", CODE)
THINK = ("Think: when is the river highest?", THOUGHT)
MEASURE = ("Measure the water level", CALL)
GO_ON = ("Go on without an end", ENDLESS * 30)
TEST = ("Reply with one word.", "Ready.")

# Each one alone, and some after others, so that an earlier turn does not lead it astray.
CONVERSATIONS: list[Conversation] = [
    *([turn] for turn in (HELLO, SHOW, THINK, MEASURE, GO_ON, TEST)),
    [HELLO, FIVE, SHOW],
    [HELLO, SHOW, THINK],
    [HELLO, THINK, FIVE],
    [HELLO, FIVE, MEASURE],
    [HELLO, GO_ON],
    [SHOW, THINK, MEASURE],
    [THINK, SHOW],
    [GO_ON, HELLO, FIVE],
    [HELLO, FIVE, SHOW, THINK, MEASURE],
    [HELLO, FIVE, SHOW, THINK, GO_ON],
]


def main(folder: Path) -> None:
    torch.manual_seed(SEED)
    # A second thread of so small a model mostly waits for the first.
    torch.set_num_threads(1)
    tokenizer = train_tokenizer()
    model = train_model(tokenizer)
    with tempfile.TemporaryDirectory() as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        place_in_cache(Path(draft), folder)
    print(f"{NAME} is in {folder}: {model.num_parameters():,} weights, {len(tokenizer)} tokens")


def render(conversation: Conversation) -> list[tuple[str, bool]]:
    """The conversation as the template writes it, in pieces; True where the model speaks."""
    pieces: list[tuple[str, bool]] = []
    for question, answer in conversation:
        pieces.append((f"{TURN}user\n{question}{END}\n{TURN}assistant\n", False))
        pieces.append((f"{answer}{END}", True))
        pieces.append(("\n", False))
    return pieces


def train_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PADDING, TURN, END],
        show_progress=False,
    )
    texts = [text for conversation in CONVERSATIONS for text, _ in render(conversation)]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PADDING,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Qwen 3, because the server reads reasoning and tool calls out of that family's text."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def train_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    model = new_model(tokenizer)
    tokens, targets, mask = batch_of(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=LEARNING_RATE, total_steps=MOST_STEPS
    )
    model.train()
    for step in range(MOST_STEPS):
        loss = model(input_ids=tokens, attention_mask=mask, labels=targets).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        if loss.item() < GOOD_LOSS:
            break
    model.eval()
    model.generation_config.do_sample = False
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def batch_of(
    tokenizer: PreTrainedTokenizerFast,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All conversations, padded to one length: tokens, what is learned of them, and the mask."""
    rows = [encode(tokenizer, conversation) for conversation in CONVERSATIONS]
    width = max(len(tokens) for tokens, _ in rows)
    padding = tokenizer.pad_token_id
    tokens = [row + [padding] * (width - len(row)) for row, _ in rows]
    targets = [row + [NOT_TRAINED_ON] * (width - len(row)) for _, row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row, _ in rows]
    return torch.tensor(tokens), torch.tensor(targets), torch.tensor(mask)


def encode(
    tokenizer: PreTrainedTokenizerFast, conversation: Conversation
) -> tuple[list[int], list[int]]:
    tokens: list[int] = []
    targets: list[int] = []
    for text, is_answer in render(conversation):
        piece = tokenizer.encode(text, add_special_tokens=False)
        tokens += piece
        targets += piece if is_answer else [NOT_TRAINED_ON] * len(piece)
    return tokens[:MOST_TOKENS], targets[:MOST_TOKENS]


def place_in_cache(draft: Path, folder: Path) -> None:
    """Lays the files out as the Hub's cache does: the server lists what it finds there, by name."""
    revision = hashlib.sha1((draft / "model.safetensors").read_bytes()).hexdigest()
    home = folder / "hub" / f"models--{NAME.replace('/', '--')}"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(draft, home / "snapshots" / revision)
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(revision)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
