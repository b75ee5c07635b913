"""What features add to runs: `ChatConfig.ready` registers it, which every process calls."""

from chat.runs import outcomes, runner

STEPS = ["questions", "artifacts", "mockups", "continue_paused", "files", "index"]


def test_steps_run_in_their_order() -> None:
    assert [step.name for step in outcomes.steps()] == STEPS


def test_runners_fetch_files_and_erase_what_is_due() -> None:
    assert list(runner.periodic_tasks()) == ["files", "purge"]
