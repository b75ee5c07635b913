"""Web processes are killed or replaced while people follow runs: viewers resume, runs go on."""

from tests.support.cluster.answers import assert_nothing_lost, begin
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.viewers import Viewers


def test_viewers_of_a_killed_process_resume_at_another(cluster: Cluster) -> None:
    gate = cluster.gate()
    begun = begin(cluster, 2, gate)
    killed, other = cluster.webs

    with Viewers(cluster, *(run for run, _ in begun)) as viewers:
        viewers.until_shown("-20 ")
        killed.kill9()
        cut_off = viewers.at(killed)
        for viewer in cut_off:
            viewer.program.until_ended()
            viewer.tab.until_ended()
        cluster.fake.release(gate.name)
        viewers.move(cut_off, other)

        viewers.until_shown(begun[0][1].last.partition("-")[2])
        killed.start()
        assert_nothing_lost(cluster, viewers, begun)
    # Each viewer resumed from its cursor: nobody was sent the whole answer again.
    assert not any(
        message.get("replaces") for viewer in viewers.all for message in viewer.tab.messages
    )


def test_replaced_process_tells_pages_to_come_back(cluster: Cluster) -> None:
    gate = cluster.gate()
    begun = begin(cluster, 2, gate)
    replaced = cluster.webs[0]

    with Viewers(cluster, *(run for run, _ in begun)) as viewers:
        viewers.until_shown("-20 ")
        exit_code = replaced.terminate()
        cut_off = viewers.at(replaced)
        for viewer in cut_off:
            viewer.tab.until_ended()
        close_codes = {viewer.tab.close_code for viewer in cut_off}
        cluster.fake.release(gate.name)
        replaced.start()
        viewers.move(cut_off, replaced)

        assert_nothing_lost(cluster, viewers, begun)
    assert exit_code == 0
    assert close_codes == {1012}
