"""Which tests a worker takes together, and which are taken first.

A worker takes a file as a whole, because its tests share what is expensive to start. A folder in
``TOGETHER`` has one cluster for all its files, so one worker takes them all; the files in
``WITH_SCENES`` share the site with the demo's servers. What takes longest is begun first, or a
worker would be left alone with it at the end; and the files of the browser are begun one after the
other, so that each worker starts one browser and one site.
"""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/cluster", "tests/public_api")
WITH_SCENES = (
    "tests/browser/test_scenes.py",
    "tests/browser/test_announcements.py",
    "tests/browser/test_model_picker.py",
)
# In this order, by the beginning of the path; everything else comes behind.
FIRST = (
    "tests/browser/test_scenes.py",
    "tests/browser/test_fallback.py",
    "tests/browser/test_pages.py",
    "tests/browser/test_hostile_text.py",
    "tests/cluster",
    "tests/browser",
    "tests/hostile",
    "tests/search/test_find.py",
    "tests/exports/test_forms.py",
    "tests/imports/test_tributary.py",
    "tests/test_access",
    "tests/processes",
    "tests/runs",
    "tests/public_api",
    "tests/live",
    "tests/server",
    "tests/deployment",
    "tests/rendering",
)


def unit_of(nodeid: str) -> str:
    """What one worker takes as a whole."""
    path = nodeid.split("::", 1)[0]
    folder = path.rpartition("/")[0]
    if path in WITH_SCENES:
        return WITH_SCENES[0]
    return folder if folder in TOGETHER else path


def rank(unit: str) -> int:
    """The lower, the earlier."""
    return next((place for place, path in enumerate(FIRST) if unit.startswith(path)), len(FIRST))


class ByResource(LoadScopeScheduling):
    """Hands out units, those that take longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
