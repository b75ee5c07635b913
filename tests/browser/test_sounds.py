"""Sounds in an answer can be played when it has ended, live and reloaded."""

import base64
from pathlib import Path

from playwright.sync_api import expect

from chat.demo.scenes import DATA
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.upstream.script import chunk, openai_chunks, openai_run, stream


def test_sound_is_played_and_downloaded(site: BrowserSite, tab: OpenTab) -> None:
    # A quarter of a second, which the demo keeps in two pieces.
    sound = b"".join((DATA / "media" / f"chime-{part}.wav").read_bytes() for part in (1, 2))
    half = len(sound) // 2
    pieces = [
        {"id": "s", "transcript": "The water "},
        {"data": base64.b64encode(sound[:half]).decode()},
        {"data": base64.b64encode(sound[half:]).decode(), "transcript": "murmurs."},
    ]
    first, *rest = openai_run("Listen.")
    said = openai_chunks([first, *(chunk({"audio": piece}) for piece in pieces)], is_done=False)
    with site.speaking("openai_chat"):
        site.fake.script(stream(said, gate("end"), openai_chunks(rest)))
        run = site.send("A sound.")
        alice = tab("Alice", site.room(run)).shows("The water murmurs.")
        expect(alice.answer.get_by_text("You can play it when")).to_be_visible()
        player = alice.answer.locator("audio")
        expect(player).to_have_count(0)
        site.fake.release("end")
        alice.shows("Listen.").until_ended()

    live = alice.normalized()
    player.evaluate(
        "audio => audio.readyState || new Promise(done => audio.onloadedmetadata = done)"
    )
    assert 0.2 < player.evaluate("audio => audio.duration") < 0.3
    player.focus()
    alice.page.keyboard.press("Space")
    player.evaluate("audio => audio.ended || new Promise(done => audio.onended = done)")
    player.evaluate("audio => { audio.currentTime = 0.1; }")
    assert abs(player.evaluate("audio => audio.currentTime") - 0.1) < 0.01
    with alice.page.expect_download() as download:
        alice.answer.get_by_role("link", name="Download sound-").click()
    assert download.value.suggested_filename == "sound-1.wav"
    assert Path(download.value.path()).read_bytes() == sound
    assert live == alice.reload().normalized()
    expect(player).to_have_attribute("aria-label", "Audio: sound-1.wav")
