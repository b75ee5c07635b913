"""Random Markdown documents for property tests."""

from hypothesis import strategies as st

_fragments = st.sampled_from(
    [
        *("# h\n", "- a\n", "* b\n", "  - c\n", "1. d\n", "> q\n", "```\n", "~~~py\n", "    i\n"),
        *("|a|b|\n", "|-|-|\n", "---\n", "===\n", "\n", "\n\n", "text ", "**b**", "`c`", "[l]: "),
        *(
            "https://x.org\n",
            "https:",
            "//",
            "a@b.org ",
            "[l]",
            "'t'",
            "<b>",
            "&amp;",
            "\\",
            "\t",
            "\r",
            "é",
            "- [x] t\n",
            "!",
        ),
        *("$$\n", "$$", "$x_1$ ", "\\[\n", "\\]\n", "\\(a\\) ", "= y_2\n"),
    ]
)
documents = st.lists(_fragments, max_size=40).map("".join)
_note_fragments = st.sampled_from(["[^1]", "[^1]: n\n", "[^b] ", "[^b]: ", "    more\n"])
documents_with_notes = st.lists(_fragments | _note_fragments, max_size=40).map("".join)
