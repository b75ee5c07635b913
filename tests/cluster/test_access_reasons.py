"""A web process on PostgreSQL that is killed right after an administrator has opened a conversation."""

from tests.support.cluster.cluster import Cluster
from tests.support.processes.opened import assert_opening_survives


def test_opening_by_an_administrator_survives_a_kill(own_cluster: Cluster) -> None:
    own_cluster.web.start()

    assert_opening_survives(own_cluster.web)
