"""Web processes that are killed or replaced while people look on: no run notices."""

from tests.support.cluster.audience import Audience
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.stories import assert_nothing_lost, begin


def test_killed_its_viewers_go_on_at_the_other_from_where_they_were(cluster: Cluster) -> None:
    gate = cluster.gate()
    begun = begin(cluster, 2, gate)
    killed, other = cluster.webs

    with Audience(cluster, *(run for run, _ in begun)) as audience:
        audience.until_shown("-30 ")
        killed.kill9()
        left = audience.of(killed)
        for seat in left:
            seat.program.until_ended()
            seat.tab.until_ended()
        cluster.fake.release(gate.name)
        audience.move(left, other)

        for seat in audience.seats:
            seat.until_shown("-119 ")
        killed.start()
        assert_nothing_lost(cluster, audience, begun)
    # Each viewer came back with a cursor that was good: nobody was sent everything again.
    assert not any(
        message.get("replaces") for seat in audience.seats for message in seat.tab.messages
    )


def test_replaced_it_tells_every_page_to_come_back_and_no_run_notices(cluster: Cluster) -> None:
    gate = cluster.gate()
    begun = begin(cluster, 2, gate)
    replaced = cluster.webs[0]

    with Audience(cluster, *(run for run, _ in begun)) as audience:
        audience.until_shown("-30 ")
        exit_code = replaced.terminate()
        left = audience.of(replaced)
        for seat in left:
            seat.tab.until_ended()
        close_codes = {seat.tab.close_code for seat in left}
        cluster.fake.release(gate.name)
        replaced.start()
        audience.move(left, replaced)

        assert_nothing_lost(cluster, audience, begun)
    assert exit_code == 0
    assert close_codes == {1012}
