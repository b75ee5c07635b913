"""The marks between which models without a reasoning parser write their thinking."""

from typing import NamedTuple


class Pair(NamedTuple):
    """``is_token``: only templates of models write it, so that it counts before it is closed."""

    opening: str
    closing: str
    is_token: bool = True


PAIRS = (
    Pair("<think>", "</think>"),
    Pair("<mm:think>", "</mm:think>"),
    Pair("<seed:think>", "</seed:think>"),
    Pair("◁think▷", "◁/think▷"),
    Pair("[THINK]", "[/THINK]"),
    Pair("<|START_THINKING|>", "<|END_THINKING|>"),
    Pair("<|inner_prefix|>", "<|inner_suffix|>"),
    Pair("<|begin_of_thought|>", "<|end_of_thought|>"),
    Pair("<|channel>thought", "<channel|>"),
    Pair("<thinking>", "</thinking>", is_token=False),
    Pair("<thought>", "</thought>", is_token=False),
    Pair("<thoughts>", "</thoughts>", is_token=False),
    Pair("<reasoning>", "</reasoning>", is_token=False),
    Pair("<reason>", "</reason>", is_token=False),
)
