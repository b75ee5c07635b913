"""Answers of several runs: which calls waited, which were answered since, and all as one result.

A run that waited is followed by one whose output begins with the answered calls, in the order in
which they had waited. Nothing else in a run's output looks like that: a call that we run never has
its outcome in the run that made it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from chat.events import (
    Json,
    JsonObject,
    OutputItem,
    Result,
    Stats,
    ToolCallItem,
    Usage,
    is_run_by_client,
)


def waiting_calls(result: Result) -> list[tuple[int, ToolCallItem]]:
    """The calls that a person may answer, each with its position in the output. The call of a
    model's question is not one of them: the reply is its outcome."""
    asked = {ask.get("call_id") for ask in result.ext.asks} - {None}
    return [
        (position, item)
        for position, item in enumerate(result.output)
        if isinstance(item, ToolCallItem)
        and item.status == "pending"
        and is_run_by_client(item)
        and (item.call_id is None or item.call_id not in asked)
    ]


def answered_head(result: Result) -> list[ToolCallItem]:
    """The answered calls of the run before, with which the output of this one begins."""
    head: list[ToolCallItem] = []
    for item in result.output:
        if not isinstance(item, ToolCallItem) or item.status == "pending":
            break
        if not is_run_by_client(item):
            break
        head.append(item)
    return head


def fill(result: Result, answered: Iterable[ToolCallItem]) -> Result:
    """The result with the calls that waited replaced by their outcomes. A call is found by its id,
    and among equal ids in order; one without a match stays as it is."""
    left = list(answered)
    output: list[OutputItem] = list(result.output)
    for position, call in waiting_calls(result):
        known = next((one for one in left if _is_same(one, call)), None)
        if known is not None:
            left.remove(known)
            output[position] = msgspec.structs.replace(
                call, output=known.output, status=known.status, execution=known.execution
            )
    return msgspec.structs.replace(result, output=output)


def _is_same(answered: ToolCallItem, call: ToolCallItem) -> bool:
    return (answered.call_id, answered.tool) == (call.call_id, call.tool)


def merge(results: Sequence[Result]) -> Result:
    """The runs of one answer, in order, as one result. Raises ``ValueError`` for an empty list.

    Outputs follow each other, each call with its outcome where it was made. Tokens are added up,
    because each run was a request of its own. The ending and its error are the last run's. There is
    no ``native``: only single runs are sent back.
    """
    if not results:
        raise ValueError("an answer has at least one run")
    if len(results) == 1:
        return results[0]
    last = results[-1]
    return Result(
        model_instance_id=last.model_instance_id,
        output=_with_late_outcomes(_outputs(results)),
        stats=_stats([result.stats for result in results]),
        response_id=last.response_id,
        ext=_extension(results),
    )


def _outputs(results: Sequence[Result]) -> Iterator[OutputItem]:
    for position, result in enumerate(results):
        later = results[position + 1] if position + 1 < len(results) else None
        filled = fill(result, answered_head(later)) if later else result
        # Once its own calls have outcomes they look like the beginning of the next run.
        yield from filled.output[len(answered_head(result)) if position else 0 :]


def _with_late_outcomes(output: Iterable[OutputItem]) -> list[OutputItem]:
    """A call that an upstream runs itself may be made before a pause, and have its outcome after
    it: that is one call."""
    items: list[OutputItem] = []
    places: dict[str, int] = {}
    for item in output:
        if isinstance(item, ToolCallItem) and item.call_id and not is_run_by_client(item):
            if item.call_id in places and item.status != "pending":
                place = places.pop(item.call_id)
                items[place] = _with_outcome(items[place], item)
                continue
            if item.status == "pending":
                places[item.call_id] = len(items)
        items.append(item)
    return items


def _with_outcome(asked: OutputItem, answered: ToolCallItem) -> OutputItem:
    return msgspec.structs.replace(asked, output=answered.output, status=answered.status)


def _extension(results: Sequence[Result]) -> Json:
    last = results[-1].ext
    sources = {result.ext.stats_source for result in results}
    return msgspec.structs.replace(
        last,
        usage=_usage([result.ext.usage for result in results if result.ext.usage]),
        alternatives=_joined(results, "alternatives"),
        artifacts=_latest(_joined(results, "artifacts"), "artifact_id"),
        mockups=_latest(_joined(results, "mockups"), "bundle_id", "identifier"),
        asks=_joined(results, "asks"),
        activity=_joined(results, "activity"),
        fork=next((r.ext.fork for r in reversed(results) if r.ext.fork is not None), None),
        meta={name: value for r in results for name, value in r.ext.meta.items()},
        vendor=_joined(results, "vendor"),
        unreadable_frames=sum(result.ext.unreadable_frames for result in results),
        stats_source=sources.pop() if len(sources) == 1 else "mixed",
        native=None,
        upstream_result=None,
    )


def _joined(results: Sequence[Result], member: str) -> list[Json]:
    return [entry for result in results for entry in getattr(result.ext, member)]


def _latest(entries: Iterable[JsonObject], *identity: str) -> list[JsonObject]:
    """Merges entries of several runs about the same thing: later members win, versions are appended."""
    known: dict[object, JsonObject] = {}
    for number, entry in enumerate(entries):
        key = next((entry[name] for name in identity if entry.get(name)), number)
        before = known.get(key, {})
        versions = [*before.get("versions", ()), *entry.get("versions", ())]
        known[key] = {**before, **entry, **({"versions": versions} if versions else {})}
    return list(known.values())


# --- figures ---------------------------------------------------------------------------


def _stats(stats: Sequence[Stats]) -> Stats:
    return Stats(
        input_tokens=_sum(each.input_tokens for each in stats),
        total_output_tokens=_sum(each.total_output_tokens for each in stats),
        reasoning_output_tokens=_sum(each.reasoning_output_tokens for each in stats),
        tokens_per_second=_speed(stats),
        time_to_first_token_seconds=stats[0].time_to_first_token_seconds,
        model_load_time_seconds=_sum(each.model_load_time_seconds for each in stats),
    )


def _sum(figures: Iterable[Json]) -> Json:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _speed(stats: Sequence[Stats]) -> float | None:
    """Tokens per second over the runs that report both, weighted by their tokens."""
    told = [
        (each.total_output_tokens, each.total_output_tokens / each.tokens_per_second)
        for each in stats
        if each.total_output_tokens and each.tokens_per_second
    ]
    seconds = sum(seconds for _, seconds in told)
    return round(sum(tokens for tokens, _ in told) / seconds, 2) if seconds > 0 else None


def _usage(usages: Sequence[Usage]) -> Usage | None:
    """The counts of several requests; their raw forms are kept side by side."""
    if len(usages) < 2:
        return usages[0] if usages else None
    counted: Mapping[str, Json] = {
        name: _sum(getattr(usage, name) for usage in usages) for name in _COUNTS
    }
    details = _added([usage.details for usage in usages if usage.details])
    return Usage(**counted, details=details or None, raw=[usage.raw for usage in usages])


_COUNTS = (
    *("input_tokens", "output_tokens", "total_tokens", "reasoning_tokens"),
    *("cache_read_tokens", "cache_write_tokens", "cost"),
)


def _added(objects: Sequence[JsonObject]) -> JsonObject:
    """Adds up numbers with the same name; other values are taken from the last."""
    total: JsonObject = {}
    for each in objects:
        for name, value in each.items():
            add = _ADD.get((type(total.get(name)), type(value)), _replace)
            total[name] = add(total.get(name), value)
    return total


def _replace(_before: Json, value: Json) -> Json:
    return value


def _plus(before: Json, value: Json) -> Json:
    return before + value


_ADD: Mapping[tuple[type, type], Callable[[Json, Json], Json]] = {
    (int, int): _plus,
    (int, float): _plus,
    (float, int): _plus,
    (float, float): _plus,
    (dict, dict): lambda before, value: _added([before, value]),
}
