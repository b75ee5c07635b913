"""Which tests a worker takes together, and which are taken first.

A browser, a site, a cluster: what is dear is started once for all tests that share it. pytest-xdist
has a mark for such groups, but with the pytest of today it ignores it, so they are told by path.
"""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# About as many seconds in each; every other file of the folder is in one more.
BROWSER_GROUPS = {
    name: number
    for number, names in enumerate(
        (
            ("test_scenes",),
            ("test_fallback", "test_nginx", "test_stopping", "test_draining", "test_survival"),
            ("test_policy", "test_room", "test_watching", "test_branches", "test_files"),
            ("test_artifacts", "test_cards", "test_hostile_rooms", "test_panel", "test_recorder"),
            (
                *("test_accessibility", "test_reading", "test_sending", "test_small_screens"),
                "test_questions",
            ),
        )
    )
    for name in names
}
# Folders whose tests share processes, or take long: what is long is begun first, so that no worker
# is left alone with it at the end.
TOGETHER = ("tests/cluster", "tests/programs")
LONG = ("tests/runs", "tests/server", "tests/processes", "tests/live", "tests/deployment")


def unit_of(nodeid: str) -> str:
    """What one worker takes as a whole: a group of files, or a file."""
    path = nodeid.split("::", 1)[0]
    folder, _, name = path.rpartition("/")
    if folder == "tests/browser":
        group = BROWSER_GROUPS.get(name.removesuffix(".py"), "rest")
        return f"{folder}:{group}"
    return folder if folder in TOGETHER else path


def rank(unit: str) -> int:
    """The lower, the earlier."""
    if unit in TOGETHER or ":" in unit:
        return 0
    if unit.endswith("_browser.py"):
        return 1
    return 2 if unit.startswith(LONG) else 3


class ByResource(LoadScopeScheduling):
    """Hands out units, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
