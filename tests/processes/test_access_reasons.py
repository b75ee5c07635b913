"""A server that is killed right after an administrator has opened a conversation."""

import pytest

from tests.support.processes.opened import assert_opening_survives
from tests.support.processes.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_opening_by_an_administrator_survives_a_kill(site: Site) -> None:
    site.start()

    assert_opening_survives(site)
