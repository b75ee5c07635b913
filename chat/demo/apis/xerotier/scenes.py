"""The scenes of the demo's Xerotier: the model chooses one, words in the prompt its manner."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from chat.demo.apis.xerotier import mockup, texts
from chat.demo.apis.xerotier.steps import (
    Cut,
    Emit,
    Fail,
    JsonObject,
    Refuse,
    Say,
    Scene,
    Step,
    Wait,
    arguments_text,
    began,
    emit,
    ended,
    paced,
    used,
)

# Silence long enough for two signs of life, of which the real service sends one in 15 seconds.
SLOW_SECONDS = 31.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneRequest:
    """What a person asked for: the newest words, which turn it is, what was said before them.

    ``replies`` answer the questions that the last answer ended with.
    """

    model: str
    text: str
    number: int = 1
    earlier: str = ""
    replies: tuple[JsonObject, ...] = ()

    def has(self, *words: str) -> bool:
        return any(re.search(rf"\b{word}\b", self.text, re.IGNORECASE) for word in words)


# --- research ----------------------------------------------------------------------------


def _research(request: SceneRequest) -> Scene:
    table, paper, gone = texts.PAGES
    steps = (
        *used("searching", "x_web_search", "5 pages found", 1.4, query="spring tide river gauge"),
        began("reading", "x_fetch_url", url=table),
        began("reading", "x_fetch_url", url=paper),
        Wait(1.1),
        ended("x_fetch_url", "Tide table, 14 kB", metadata=_page("Tides", 1100), url=table),
        Wait(1.3),
        ended("x_fetch_url", "A study, 88 kB", metadata=_page("Surges", 2400), url=paper),
        *used(
            "tool_call", "x_read_artifact", "Gauge reader, 21 lines", 0.5, artifact_id="art_reader"
        ),
        *paced((emit("x_research.gap_analysis"), emit("x_research.deepening_round")), 0.8),
        *used("code_searching", "x_code_search", "2 matches", 0.9, query="def tidal_range"),
        *used("reading", "x_fetch_url", "The page is gone (404)", 0.7, url=gone),
        *used("calculating", "x_calculator", "0.37", 0.3, expression="2.31 - 1.94"),
        *paced(
            (
                began("tracking_decision", "x_track_decision", decision="Trust the local table"),
                emit("x_research.context_compacted", removed_tokens=2100),
            ),
            0.6,
        ),
        *used("querying_timeline", "x_query_timeline", "3 entries", 0.6, since="2025-12-01"),
        *used("relating", "x_relate", "The moon leads by two days", 0.8, entities=["tide", "moon"]),
        Say(_opening(request) + texts.RESEARCH),
    )
    return Scene(steps=steps)


def _page(title: str, milliseconds: int) -> JsonObject:
    return {"title": title, "status": 200, "duration_ms": milliseconds}


# --- deep think ---------------------------------------------------------------------------

_PARTS = texts.PARTS


def _deep_think(request: SceneRequest) -> Scene:
    total = len(_PARTS)
    steps = (
        emit("x_deep_think.planning_started"),
        Wait(1.6),
        emit("x_deep_think.plan_created", title=texts.PLAN, total_subtasks=total),
        Wait(0.7),
        emit("x_deep_think.plan_critiqued", remarks=1),
        emit("x_deep_think.discovery_started", message="Looking for what is known already"),
        *used("searching", "x_web_search", "3 reports found", 1.1, query="weir inspection reports"),
        emit("x_deep_think.discovery_completed", message="Three reports, one of them recent"),
        *paced((emit("x_deep_think.subtask_planned", subtask_index=i) for i in range(total)), 0.2),
        *(_begin_part(number) for number in (0, 1)),
        Wait(1.5),
        _end_part(0, 2140, 310),
        _begin_part(2),
        Wait(1.1),
        emit("x_deep_think.subtask_retried", subtask_index=1, attempt=2, reason="timed out"),
        Wait(1.2),
        _end_part(1, 3890, 402),
        Wait(0.6),
        _end_part(2, 1675, 288),
        emit("x_deep_think.deepening_round_completed", round=1),
        _begin_part(3),
        Wait(1.4),
        _end_part(3, 990, 154),
        emit("x_deep_think.deepening_round_completed", round=2),
        *paced((emit("x_deep_think.cross_reference", pairs=6),), 0.9),
        emit("x_deep_think.synthesizing"),
        Wait(0.8),
        *paced((emit("x_deep_think.claim_emitted", claim=claim) for claim in texts.CLAIMS), 0.5),
        emit("x_deep_think.structured_synthesis", sections=texts.SECTIONS),
        emit("x_deep_think.memory_extracted", text="The reader looks after a weir."),
        Say(_opening(request) + texts.DEEP_THINK),
    )
    return Scene(steps=steps)


def _begin_part(number: int) -> Emit:
    return emit(
        "x_deep_think.subtask_started",
        subtask_id=f"part-{number + 1}",
        subtask_index=number,
        subtask_query=_PARTS[number],
        total_subtasks=len(_PARTS),
    )


def _end_part(number: int, input_tokens: int, output_tokens: int) -> Emit:
    return emit(
        "x_deep_think.subtask_completed",
        subtask_index=number,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def _analyst(request: SceneRequest) -> Scene:
    steps = (
        emit("x_analyst.context_gathering"),
        Wait(1.8),
        emit("x_analyst.context_completed", memories=3, files=12, artifacts=2, conversations=7),
        Wait(1.2),
        emit("x_analyst.context_brief_created", brief=texts.BRIEF),
        Wait(0.6),
        *((emit("x_analyst.context_refreshed", reason="a file changed"),) * (request.number > 1)),
        Say(_opening(request) + texts.ANALYST),
    )
    return Scene(steps=steps)


# --- artifacts and mockups -------------------------------------------------------------------


def _artifacts(request: SceneRequest) -> Scene:
    is_page = request.has("html", "page")
    first, second = texts.HTML_VERSIONS if is_page else texts.PYTHON_VERSIONS
    if request.number > 1:
        third = second + texts.LATER_LINE[is_page].format(number=request.number)
        steps: tuple[Step, ...] = (
            Say(_opening(request) + texts.ARTIFACT_AGAIN),
            _artifact("updated", third, is_page=is_page),
        )
        return Scene(steps=steps)
    steps = (
        Say(_opening(request) + texts.ARTIFACT_FIRST),
        *_written("create_artifact", _artifact("created", first, is_page=is_page)),
        Say(texts.ARTIFACT_SECOND),
        *_written("update_artifact", _artifact("updated", second, is_page=is_page)),
        Say(texts.ARTIFACT_LAST),
    )
    return Scene(steps=steps)


def _written(tool: str, event: Emit) -> tuple[Step, ...]:
    arguments = {"identifier": event.members["identifier"]}
    return (
        began("tool_call", f"x_{tool}", **arguments),
        Wait(2.5),
        event,
        ended(f"x_{tool}", f"{len(event.members['content']):,} characters", **arguments),
    )


def _artifact(op: str, content: str, *, is_page: bool) -> Emit:
    kind = "tide-page" if is_page else "tide-table"
    return emit(
        f"x_artifact.{op}",
        artifact_id=f"art_{kind}",
        identifier=kind,
        title="Tide page" if is_page else "Tide table",
        language="html" if is_page else "python",
        content_type="text/html" if is_page else "text/x-python",
        content=content,
    )


def _mockup(request: SceneRequest, bundles: mockup.Bundles) -> Scene:
    """The first turn makes a bundle; the next ones, or the word "update", change it."""
    known = mockup.BUNDLE_ID.findall(request.earlier)
    if not known:
        bundle_id = bundles.create()
        steps = _bundle_made(request, bundle_id)
        if request.has("updates?", "twice"):
            bundles.keep(bundle_id, 2)
            steps += (Wait(2.0), *_bundle_changed(bundle_id, 2), Say(texts.MOCKUP_CHANGED))
        return Scene(steps=steps)
    bundle_id = known[-1]
    version = max(bundles.version_of(bundle_id), 1) + 1
    bundles.keep(bundle_id, version)
    opening = (Say(_opening(request) + texts.MOCKUP_CHANGING),)
    return Scene(steps=(*opening, *_bundle_changed(bundle_id, version), Say(texts.MOCKUP_CHANGED)))


def _bundle_made(request: SceneRequest, bundle_id: str) -> tuple[Step, ...]:
    tool = {"identifier": mockup.IDENTIFIER}
    return (
        Say(_opening(request) + texts.MOCKUP_FIRST),
        began("creating_mockup", "x_create_mockup", **tool),
        emit("x_mockup.calling", identifier=mockup.IDENTIFIER, title=mockup.TITLE),
        Wait(3.2),
        emit(
            "x_mockup.created",
            **_bundle(bundle_id),
            entry=mockup.ENTRY,
            files=mockup.listed(1),
        ),
        ended("x_create_mockup", f"{len(mockup.listed(1))} files", **tool),
        Say(texts.MOCKUP_MADE.format(bundle_id=bundle_id)),
    )


def _bundle_changed(bundle_id: str, version: int) -> tuple[Step, ...]:
    tool = {"identifier": mockup.IDENTIFIER}
    changed, deleted = mockup.changed_paths(version), mockup.deleted_paths(version)
    return (
        began("updating_mockup", "x_update_mockup", **tool),
        emit("x_mockup.calling", identifier=mockup.IDENTIFIER, title=mockup.TITLE),
        Wait(2.6),
        emit(
            "x_mockup.updated",
            **_bundle(bundle_id),
            entry=mockup.ENTRY,
            changed=changed,
            deleted=deleted,
        ),
        ended("x_update_mockup", f"{len(changed)} changed, {len(deleted)} deleted", **tool),
    )


def _bundle(bundle_id: str) -> JsonObject:
    return {"bundleId": bundle_id, "identifier": mockup.IDENTIFIER, "title": mockup.TITLE}


# --- questions ---------------------------------------------------------------------------------


def _question(request: SceneRequest) -> Scene:
    if request.replies:
        return _after_replies(request)
    if request.has("fields?", "form"):
        return _waiting(request, texts.ASK_FORM, texts.BEFORE_FORM)
    if request.has("two", "2"):
        return _waiting(request, texts.ASK_TWO, texts.BEFORE_TWO, extra_call=True)
    return _waiting(request, texts.ASK_ONE, texts.BEFORE_ONE)


def _waiting(
    request: SceneRequest, questions: tuple[JsonObject, ...], said: str, *, extra_call: bool = False
) -> Scene:
    """Asks, and tells what has to come back: the words so far and every call."""
    content = _opening(request) + said
    numbered = [
        {**question, "askUserId": f"ask_{request.number}_{number}", "toolCallId": f"call_{number}"}
        for number, question in enumerate(questions, start=1)
    ]
    calls = [_call(one["toolCallId"], "x_ask_user", question=one["question"]) for one in numbered]
    if extra_call:
        calls.append(_call("call_search", "x_web_search", query="ferries on Saturday"))
    steps = (
        Say(content),
        *(step for one in numbered for step in (Wait(1.4), Emit("x_ask_user.question", one))),
        emit("x_ask_user.pending_state", assistantContent=content, toolCalls=calls),
    )
    return Scene(steps=steps, finish="tool_calls")


def _call(identity: str, tool: str, **arguments: str) -> JsonObject:
    function = {"name": tool, "arguments": arguments_text(arguments)}
    return {"id": identity, "type": "function", "function": function}


def _after_replies(request: SceneRequest) -> Scene:
    steps = (
        *used("searching", "x_web_search", "2 ferries found", 1.2, query="ferry times"),
        Say(texts.AFTER_REPLIES.format(replies="\n".join(map(_reply_line, request.replies)))),
    )
    return Scene(steps=steps)


def _reply_line(reply: JsonObject) -> str:
    if "text" in reply:
        return f"> {reply['text']}"
    if reply.get("declined"):
        return "- that you would rather not say, which is fine"
    fields = reply.get("fields") or {}
    said = [f"{name}: {value}" for name, value in fields.items()]
    answer = str(reply.get("answer") or "")
    # Without words of one's own the answer repeats what was chosen.
    chosen = [str(one) for one in reply.get("selected") or ()]
    said += chosen if answer != ", ".join(chosen) else []
    said += [answer] if answer else []
    return f"- {'; '.join(said) or 'nothing'}"


# --- a branch, and the rest ---------------------------------------------------------------------


def _fork(request: SceneRequest) -> Scene:
    branch = f"What if {_short(request.text, 40)}" if request.text else "What if"
    steps = (
        emit(
            "x_context_fork",
            branch_id="branch_7f3k9q2m5x8w1c4v6b0n2h5j",
            branch_name=branch,
            message_count=2 * request.number,
        ),
        Wait(1.2),
        Say(_opening(request) + texts.FORK),
    )
    return Scene(steps=steps, last=(emit("x_chat.metadata", **_metadata(request)),))


def _metadata(request: SceneRequest) -> JsonObject:
    recent = 340 * request.number
    total = 512 + 1024 + recent + 64
    return {
        "messageId": f"msg_ext_{request.number:04d}b",
        "userMessageId": f"msg_ext_{request.number:04d}a",
        "sequence": 2 * request.number,
        "context": {
            "systemTokens": 512,
            "summaryTokens": 0,
            "retrievedTokens": 1024,
            "recentTokens": recent,
            "fileTokens": 0,
            "currentMessageTokens": 64,
            "totalTokens": total,
            "inputBudget": 8192,
            "retrievedCount": 6,
            "recentCount": 2 * request.number,
            "usedSemanticRetrieval": True,
            "semanticRetrievalActive": True,
            "chunkSelectionMethod": "semantic",
        },
        "usage": {"input_tokens": total, "output_tokens": 256, "total_tokens": total + 256},
    }


def _welcome(request: SceneRequest) -> Scene:
    return Scene(steps=(Say(_opening(request) + texts.WELCOME),))


def _opening(request: SceneRequest) -> str:
    """From the second turn on, which turn it is: branches can then be told apart."""
    if request.number < 2:
        return ""
    return f"*Turn {request.number}, about “{_short(request.text, 80)}”*\n\n"


def _short(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


_SCENES: Mapping[str, Callable[[SceneRequest], Scene]] = {
    "tributary/demo-research": _research,
    "tributary/demo-deep-think": _deep_think,
    "tributary/demo-analyst": _analyst,
    "tributary/demo-artifacts": _artifacts,
    "tributary/demo-question": _question,
    "tributary/demo-fork": _fork,
}
MOCKUP_MODEL = "tributary/demo-mockup"
LABELS: Mapping[str, str] = {
    "tributary/demo-research": "Demo research",
    "tributary/demo-deep-think": "Demo deep think",
    "tributary/demo-analyst": "Demo analyst",
    "tributary/demo-artifacts": "Demo artifacts",
    MOCKUP_MODEL: "Demo mockup",
    "tributary/demo-question": "Demo question",
    "tributary/demo-fork": "Demo branch",
}


# --- manners -------------------------------------------------------------------------------------

_TIMEOUT = Fail(
    message="Request timed out after 30s (this is the demo's error scene).",
    type="timeout_error",
    code="timeout",
)
_PREEMPTED = Fail(
    message="A job with a higher priority needed the machine (this is the demo's scene for it).",
    type="server_error",
    code="preempted",
)


def choose(request: SceneRequest, bundles: mockup.Bundles) -> Scene:
    """The scene of a model, which other models do without, in the manner that the words ask for."""
    if request.has("refuse[sd]?"):
        return Scene(steps=(Refuse(texts.REFUSAL),))
    if request.model == MOCKUP_MODEL:
        scene = _mockup(request, bundles)
    else:
        scene = _SCENES.get(request.model, _welcome)(request)
    if request.has("slow(ly)?"):
        scene = replace(scene, steps=(Wait(SLOW_SECONDS), *scene.steps))
    for ending, word in ((_TIMEOUT, "errors?"), (_PREEMPTED, "preempted"), (Cut(), "cuts?")):
        if request.has(word):
            return replace(scene, steps=(*_broken(scene.steps), ending))
    return scene


def _broken(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Everything up to the middle of the last text."""
    last = max((i for i, step in enumerate(steps) if isinstance(step, Say)), default=len(steps))
    if last == len(steps):
        return steps
    said = steps[last]
    assert isinstance(said, Say)
    return (*steps[:last], Say(said.text[: len(said.text) // 2]))
