"""What features add to runs: `ChatConfig.ready` registers it, which every process calls."""

from chat.runs import outcomes, runner

STEPS = ["questions", "tools", "artifacts", "mockups", "continue_paused", "files", "index"]


def test_steps_run_in_their_order() -> None:
    assert [step.name for step in outcomes.steps()] == STEPS


def test_runners_repeat_the_tasks_of_features() -> None:
    assert list(runner.periodic_tasks()) == [
        *("files", "purge", "jobs", "jobs.purge", "files.purge"),
        *("ended", "titles", "messages", "messages.after_answer", "messages.late"),
        *("presence.purge", "tool_calls", "tool_servers.tests", "tool_recordings.purge"),
        *("documents.purge", "jobs.reading.1", "jobs.reading.2"),
    ]
