"""An administrator limits a server to a team and one of its models, and members are offered just that."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.support.browser.displays import serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite


@pytest.fixture
def two_models(site: BrowserSite) -> Iterator[BrowserSite]:
    models = site.value("SELECT model_list FROM chat_upstream")
    # The tests of all pages give the server to a team, in this installation too.
    site.rows("DELETE FROM chat_modelgrant")
    site.rows("""UPDATE chat_upstream SET model_list = '[{"id": "small"}, {"id": "large"}]'""")
    # A model that somebody has used before would be offered as unavailable.
    site.rows("UPDATE chat_conversation SET upstream_id = NULL")
    yield site
    site.rows("DELETE FROM chat_modelgrant")
    site.rows("UPDATE chat_upstream SET model_list = ?, is_limited = FALSE", models)


@pytest.mark.slow
def test_team_is_offered_the_models_that_it_was_given(
    two_models: BrowserSite, tab: OpenTab
) -> None:
    site = two_models
    server = UUID(site.world.upstream)
    ada = tab("Ada", f"/settings/servers/{server}/access/").page
    alice = tab("Alice", "/").page
    offered = alice.locator("select[name=choice] option")
    expect(offered).to_have_text(["small", "large"])

    ada.get_by_label("Selected teams").check()
    ada.get_by_role("button", name="Save").click()
    expect(ada.get_by_text("Nobody can use this server.")).to_be_visible()
    alice.reload()
    expect(offered).to_have_count(0)

    ada.get_by_role("link", name="Add team").click()
    expect(ada.get_by_role("heading", name="Add team")).to_be_visible()
    ada.get_by_label("small").check()
    ada.get_by_text("Parameter limits").click()
    ada.locator("[name^=limit_][name*=tokens]").first.fill("500")
    assert serious_findings(ada) == []
    ada.get_by_role("button", name="Save").click()
    expect(ada.get_by_role("row").filter(has_text="small")).to_be_visible()
    assert serious_findings(ada) == []
    ada.goto(f"{site.url}/people/teams/{UUID(site.world.team)}/models/")
    expect(ada.get_by_role("row").filter(has_text="small")).to_be_visible()
    assert serious_findings(ada) == []
    alice.reload()
    expect(offered).to_have_text(["small"])
