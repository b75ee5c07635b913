"""Chinese, Japanese and Korean prose: where emphasis opens and closes, and where an address ends."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chat.rendering.markdown import render
from chat.rendering.markdown.cjk import CJK, with_cjk_emphasis
from tests.rendering.dom import parse

# By the amendment of CommonMark for these scripts.
EMPHASIS = [
    ("**水位很高。**磨坊停了", "<strong>水位很高。</strong>磨坊停了"),
    ("请看**（图一）**的数据", "请看<strong>（图一）</strong>的数据"),
    ("これは**「強調」**です", "これは<strong>「強調」</strong>です"),
    ("**이것(this)**은 강조입니다", "<strong>이것(this)</strong>은 강조입니다"),
    ("这个**`level`**吗", "这个<strong><code>level</code></strong>吗"),
    ("水位*很高*了。*（一）*二", "水位<em>很高</em>了。<em>（一）</em>二"),
    ("~~旧的水位。~~新的", "<s>旧的水位。</s>新的"),
    ("他说**“水位”**高", "他说<strong>“水位”</strong>高"),
    ("**注意：**这里，**小心！**那里", "<strong>注意：</strong>这里，<strong>小心！</strong>那里"),
    ("**水。**🌊", "<strong>水。</strong>🌊"),
    ("**㊗**(祝)", "<strong>㊗</strong>(祝)"),
    ("葛\U000e0100**(城)**市", "葛\U000e0100<strong>(城)</strong>市"),
    ("字\ufe00**(a)**", "字\ufe00<strong>(a)</strong>"),
    ("’\ufe01**(a)**", "’\ufe01<strong>(a)</strong>"),
    ("!\ufe00__a__", "!\ufe00<strong>a</strong>"),
    # As everywhere else.
    ("__水位。__磨坊", "__水位。__磨坊"),
    ("水位_很高_了", "水位_很高_了"),
    ("a**(b)**c", "a**(b)**c"),
    ("a**🌊**b", "a**🌊**b"),
    ("a\ufe00**(b)**c", "a\ufe00**(b)**c"),
    ("水 ** 位** 高", "水 ** 位** 高"),
]


@pytest.mark.parametrize(("source", "html"), EMPHASIS)
def test_emphasis_beside_letters_and_marks(source: str, html: str) -> None:
    assert render(source) == f'<p dir="auto">{html}</p>'


LATIN = st.lists(
    st.sampled_from([*"aé1.,!()“”…🌊✓ \n", "*", "**", "***", "_", "__", "~~", "\u00a0"])
)


@given(source=LATIN.map("".join))
def test_other_scripts_are_read_by_commonmark(source: str) -> None:
    usual = MarkdownIt("commonmark").enable("strikethrough")
    ours = with_cjk_emphasis(MarkdownIt("commonmark").enable("strikethrough"))

    assert ours.render(source) == usual.render(source)


def test_characters_are_those_of_the_amendment() -> None:
    is_cjk = re.compile(f"[{CJK}]").match
    # Wide since Unicode 16, which this Python may not have.
    newer = {
        *range(0x2630, 0x2638),
        *range(0x268A, 0x2690),
        *range(0x4DC0, 0x4E00),
        *range(0x1D300, 0x1D377),
    }
    for code in {*range(0x110000)} - newer:
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cn", "Cs", "Co"):
            continue
        is_wide = unicodedata.east_asian_width(character) in "WFH"
        is_hangul = unicodedata.name(character, "").startswith("HANGUL")
        # Wide symbols outside are emoji.
        expected = is_hangul or (is_wide and not (category[0] == "S" and not is_cjk(character)))

        assert bool(is_cjk(character)) == expected, f"U+{code:04X}"
    for emoji in "⌚⏰☔♈⚡✅❌➕⭐🀄🈚🌊🏻😀":
        assert not is_cjk(emoji)


ADDRESSES = [
    ("请看 https://example.org/a。下一句", ["https://example.org/a"]),
    (
        "见https://example.org/a，还有https://example.org/b、https://example.org/c；",
        ["a", "b", "c"],
    ),
    (
        "（https://example.org/a）和【https://example.org/b】以及《https://example.org/c》",
        ["a", "b", "c"],
    ),
    (
        "「https://example.org/a」『https://example.org/b』〈https://example.org/c〉",
        ["a", "b", "c"],
    ),
    ("https://example.org/a（说明）和 https://example.org/b：说明", ["a", "b"]),
    (
        "真的？https://example.org/a！https://example.org/b？是 https://example.org/c…",
        ["a", "b", "c"],
    ),
    ("他说“https://example.org/a”对——https://example.org/b——是", ["a", "b"]),
    ("**https://example.org/a**的说明，*https://example.org/b*。", ["a", "b"]),
    ("ｱﾄﾞﾚｽ｢https://example.org/a｣､https://example.org/b｡", ["a", "b"]),
    ("주소는 「https://example.org/a」입니다. (https://example.org/b)를 보세요.", ["a", "b"]),
    (
        "https://example.org。后面 https://example.org:8080，后面",
        ["https://example.org", "https://example.org:8080"],
    ),
    (
        "https://example.org，联系 ana@example.org。谢谢",
        ["https://example.org", "mailto:ana@example.org"],
    ),
    ("https://example.org/a.。句", ["a"]),
    # Letters, and marks inside names, belong to an address.
    (
        "https://example.org/wiki/ジョン・スミス と",
        ["wiki/%E3%82%B8%E3%83%A7%E3%83%B3%E3%83%BB%E3%82%B9%E3%83%9F%E3%82%B9"],
    ),
    ("https://example.org/道_(消歧义)。", ["%E9%81%93_(%E6%B6%88%E6%AD%A7%E4%B9%89)"]),
    ("https://example.org/a_(b),c.d?e=f&g=h—i。", ["a_(b),c.d?e=f&g=h%E2%80%94i"]),
]


@pytest.mark.parametrize(("source", "addresses"), ADDRESSES)
def test_address_ends_at_a_mark_behind_it(source: str, addresses: list[str]) -> None:
    links = parse(render(source)).find_all("a")

    whole = [a if ":" in a else f"https://example.org/{a}" for a in addresses]
    assert [link.attributes["href"].replace("&amp;", "&") for link in links] == whole
