"""Files of every kind, and what is read of each."""

from __future__ import annotations

import codecs
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from chat.documents.readers import refusals
from tests.documents.office_files import (
    binary_workbook,
    changed,
    compound,
    old_workbook,
    open_sheets,
    slide_with_table_and_groups,
    slides,
    word,
    word_with,
    workbook,
)
from tests.documents.pdf_files import pdf

Text = str | bytes


@dataclass(frozen=True, kw_only=True)
class Case:
    """A file by its name, and either its pages or the sentence that refuses it."""

    name: str
    make: Callable[[], bytes]
    pages: Sequence[str] = ()
    names: Sequence[str] = ()
    refusal: str = ""


def case(
    name: str,
    body: bytes | Callable[[], bytes],
    *pages: str,
    names: Sequence[str] = (),
    refusal: str = "",
) -> Case:
    make = body if callable(body) else lambda: body
    return Case(name=name, make=make, pages=pages, names=names, refusal=refusal)


def mail(*, html: str = "", text: str = "", attached: Sequence[str] = (), **headers: str) -> bytes:
    message = EmailMessage()
    for name, value in {"From": "Ana <ana@example.com>", "Subject": "Plan", **headers}.items():
        message[name] = value
    if text or not html:
        message.set_content(text)
    if html and text:
        message.add_alternative(html, subtype="html")
    elif html:
        message.set_content(html, subtype="html")
    for name in attached:
        message.add_attachment(b"x", maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def _document(document: Any) -> None:
    document.add_heading("Plan", 1)
    document.add_paragraph("Überblick über das Jahr.")
    document.add_heading("Ziele", 2)
    document.add_paragraph("eins", style="List Bullet")
    document.add_paragraph("zwei", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for row, values in zip(table.rows, (("Stadt", "Leute"), ("Bonn", "330 000")), strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value


DOCUMENT = "# Plan\n\nÜberblick über das Jahr.\n\n## Ziele\n\n- eins\n- zwei\n\n| Stadt | Leute\n| Bonn | 330 000"


SMALL = word_with("<w:p><w:r><w:t>small</w:t></w:r></w:p>")


def _with_inserted_and_deleted(_: Any = None) -> bytes:
    run = "<w:r><w:t>{}</w:t></w:r>"
    return word_with(
        f"<w:p>{run.format('kept ')}<w:ins>{run.format('new')}</w:ins>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    )


PAGE = (
    "<!doctype html><title>Elbe &amp; Oder</title><style>p{color:red}</style><nav>Menu</nav>"
    "<h1>Elbe</h1><p>A <b>long</b> river. <a href='https://example.com/x'>More</a></p>"
    "<ol><li>one<li><p>two</p><ul><li>deep</ul></ol><table><tr><th>a<th>b<tr><td><p>1</p><td>2</table>"
    "<script>alert(1)</script><!-- hidden --><pre>x\n  y</pre>"
)
PAGE_TEXT = (
    "Elbe & Oder\n\nMenu\n\n# Elbe\n\nA long river. More (https://example.com/x)\n\n1. one\n2. two\n\n"
    "  - deep\n\n| a | b\n| 1 | 2\n\nx\n  y"
)
DAY = datetime.datetime(2026, 11, 30, 8, 15)
BINARY = bytes(range(256)) * 4

PDFS = (
    case("one.pdf", lambda: pdf(["Hello, world"]), "Hello, world"),
    case("lines.pdf", lambda: pdf(["First line\nSecond line"]), "First line\nSecond line"),
    case("three.pdf", lambda: pdf(["One", "Two", "Three"]), "One", "Two", "Three"),
    case("umlauts.pdf", lambda: pdf(["Grüße aus Köln (1 €)"]), "Grüße aus Köln (1 €)"),
    # A font that isn't in the file, and can't be looked for on the machine.
    case("font.pdf", lambda: pdf(["Grüße"], font="Unknown-Font"), "Grüße"),
    case("scan.pdf", lambda: pdf(["", ""]), "", ""),
    case("late-header.pdf", lambda: pdf(["Late"], first_bytes=b"junk\n" * 10), "Late"),
    case("upload", lambda: pdf(["Without a suffix"]), "Without a suffix"),
    case("opens.pdf", lambda: pdf(["Open to all"], password=""), "Open to all"),
    case("closed.pdf", lambda: pdf(["Secret"], password="geheim"), refusal=refusals.PASSWORD),
    case(
        "script.pdf",
        lambda: pdf(["Text"], catalog="/OpenAction<</S/JavaScript/JS(app.alert(1))>>"),
        "Text",
    ),
    # PDFium rebuilds a table of references that is wrong.
    case("table.pdf", lambda: pdf(["Found"]).replace(b"startxref\n", b"startxref\n9"), "Found"),
    case("cut.pdf", lambda: pdf(["Half"])[:120], refusal=refusals.DAMAGED),
    case("zeros.pdf", b"%PDF-1.7\n" + bytes(1000), refusal=refusals.DAMAGED),
    case("text.pdf", b"Only a text", refusal=refusals.WRONG_TYPE),
    case("empty.pdf", b"", refusal=refusals.EMPTY),
    case("many.pdf", lambda: pdf(["x"] * 21), refusal=refusals.TOO_MANY_PAGES),
)
OFFICE = (
    case("plan.docx", lambda: word(_document), DOCUMENT),
    case("empty.docx", lambda: word_with(""), ""),
    case("macro.docm", lambda: changed(SMALL, {"word/vbaProject.bin": BINARY}), "small"),
    case("review.docx", _with_inserted_and_deleted, "kept new"),
    case("upload.bin", lambda: SMALL, "small"),
    case(
        "field.docx",
        lambda: word_with(
            '<w:p><w:r><w:t xml:space="preserve">&lt;b&gt; &amp;amp; </w:t></w:r></w:p>'
        ),
        "<b> &amp;",
    ),
    case("old.doc", lambda: compound("WordDocument", b"x"), refusal=refusals.OLD_FORMAT),
    case("locked.docx", lambda: compound("EncryptedPackage", b"x"), refusal=refusals.PASSWORD),
    case("sheet.docx", lambda: workbook({"A": [["x"]]}), refusal=refusals.WRONG_TYPE),
    case("picture.docx", b"\x00\x01\x02" * 100, refusal=refusals.WRONG_TYPE),
    case("cut.docx", lambda: SMALL[:2000], refusal=refusals.DAMAGED),
    case(
        "talk.pptx",
        lambda: slides(("Start", "one\n\tinner\ntwo", "Say hello"), ("End", "Thanks", "")),
        "Start\n\none\n  inner\ntwo\n\nNotes:\nSay hello",
        "End\n\nThanks",
        names=("Start", "End"),
    ),
    case(
        "table.pptx",
        slide_with_table_and_groups,
        "| City | People |\n| Bonn | 330,000 |\n\nIn two groups",
        names=("",),
    ),
    case(
        "show.ppsx",
        lambda: changed(
            slides(("Show", "x", "")),
            {"ppt/vbaProject.bin": BINARY},
        ),
        "Show\n\nx",
        names=("Show",),
    ),
    case("old.ppt", lambda: compound("PowerPoint Document", b"x"), refusal=refusals.OLD_FORMAT),
    case("document.pptx", lambda: SMALL, refusal=refusals.WRONG_TYPE),
    case("many.pptx", lambda: slides(*[("x", "", "")] * 21), refusal=refusals.TOO_MANY_PAGES),
)
SHEETS = (
    case(
        "figures.xlsx",
        lambda: workbook(
            {
                "People": [["City", "Count"], ["Bonn, am Rhein", 330_000], ["Köln", 1.5], [True]],
                "Empty": [],
                "Days": [[None, None], [None, DAY], [], ["=1+1 -> 2", 'say "hi"']],
            }
        ),
        'City,Count\n"Bonn, am Rhein",330000\nKöln,1.5\nTRUE',
        "",
        ',2026-11-30 08:15:00\n\n2,"say ""hi"""',
        names=("People", "Empty", "Days"),
    ),
    case(
        "macro.xlsm",
        lambda: changed(workbook({"A": [["x"]]}), {"xl/vbaProject.bin": BINARY}),
        "x",
        names=("A",),
    ),
    case(
        "open.ods",
        lambda: open_sheets({"Eins": [["a", 2.0], ["b", 0.5]]}),
        "a,2\nb,0.5",
        names=("Eins",),
    ),
    case(
        "binary.xlsb",
        lambda: binary_workbook({"Flüsse": [["Elbe", 2.0], [True, 0.5]], "Two": [["x"]]}),
        "Elbe,2\nTRUE,0.5",
        "x",
        names=("Flüsse", "Two"),
    ),
    case(
        "broken.xlsb",
        lambda: changed(binary_workbook({"A": [["x"]]}), {"xl/workbook.bin": b"\x83\x01\xff"}),
        refusal=refusals.DAMAGED,
    ),
    case(
        "old.xls", lambda: old_workbook("Alt", [["a", 2], ["é", 0.5]]), "a,2\né,0.5", names=("Alt",)
    ),
    case("locked.xlsx", lambda: compound("EncryptedPackage", b"x"), refusal=refusals.PASSWORD),
    case("broken.xls", lambda: compound("Other", b"x"), refusal=refusals.DAMAGED),
    case("document.xlsx", lambda: SMALL, refusal=refusals.WRONG_TYPE),
    case(
        "many.xlsx",
        lambda: workbook({f"S{number}": [["x"]] for number in range(21)}),
        refusal=refusals.TOO_MANY_PAGES,
    ),
    case("list.csv", b"a;b\r\n1;2\r\n", "a;b\n1;2\n"),
)
TEXTS = (
    case("notes.txt", b"Plain text", "Plain text"),
    case("utf8.txt", codecs.BOM_UTF8 + "Grüße".encode(), "Grüße"),
    case("utf16.txt", "Grüße\r\n".encode("utf-16"), "Grüße\n"),
    case("big.txt", codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"), "Grüße"),
    case("windows.txt", "Grüße – 5 €".encode("cp1252"), "Grüße – 5 €"),
    case("greek.txt", b"caf\x81", refusal=refusals.UNKNOWN_ENCODING),
    case("README.md", b"# Title\n\n* one\n", "# Title\n\n* one\n"),
    case("code.py", b"def f():\n\treturn 1\n", "def f():\n\treturn 1\n"),
    case("Dockerfile", b"FROM scratch\n", "FROM scratch\n"),
    case("data.json", json.dumps({"a": [1, "ü"]}).encode(), '{"a": [1, "\\u00fc"]}'),
    case("log.log", b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
    case("mac.txt", b"one\rtwo\r", "one\ntwo\n"),
    case("binary.txt", BINARY, refusal=refusals.NOT_TEXT),
    case("empty.txt", b"", refusal=refusals.EMPTY),
    case("rich.txt", b"{\\rtf1\\ansi Hello}", refusal=refusals.OLD_FORMAT),
    case("long.txt", b"x" * 100_001, refusal=refusals.TOO_LONG),
    case("page.html", PAGE.encode(), PAGE_TEXT),
    case("latin.html", "<meta charset=iso-8859-2><p>Łódź".encode("iso8859-2"), "Łódź"),
    case("wrong.html", "<meta charset=nonsense><p>Grüße".encode(), "Grüße"),
    case("hostile.html", b"<p>a<img src=x onerror=alert(1)><svg><script>1</script></svg>", "a"),
)
MAILS = (
    case(
        "plan.eml",
        lambda: mail(
            text="Grüße aus Köln", To="Bob <bob@example.com>", Subject="Grüße", attached=["a b.pdf"]
        ),
        "From: Ana <ana@example.com>\nTo: Bob <bob@example.com>\nSubject: Grüße\nAttachments: a b.pdf\n\n"
        "Grüße aus Köln",
    ),
    case(
        "both.eml",
        lambda: mail(text="The text", html="<p>The HTML"),
        "From: Ana <ana@example.com>\nSubject: Plan\n\nThe text",
    ),
    case(
        "html.eml",
        lambda: mail(html="<h1>News</h1><script>1</script>"),
        "From: Ana <ana@example.com>\nSubject: Plan\n\n# News",
    ),
    case(
        "koi8.eml",
        b"From: a@example.com\nContent-Type: text/plain; charset=koi8-r\n\n"
        + "Привет".encode("koi8-r"),
        "From: a@example.com\n\nПривет",
    ),
    case("no.eml", b"Just some words\n", refusal=refusals.WRONG_TYPE),
)
CASES = (*PDFS, *OFFICE, *SHEETS, *TEXTS, *MAILS)

# --- files that want to do harm: how each ends in the process that reads it -----------------------


def _bomb() -> bytes:
    """A megabyte of an archive becomes a gigabyte."""
    return changed(SMALL, {"word/media/x.xml": bytes(64 * 1024 * 1024)})


def _lying_bomb() -> bytes:
    """An archive that says that its largest member has one byte."""
    size = 64 * 1024 * 1024
    body = changed(workbook({"A": [["x"]]}), {"xl/worksheets/sheet1.xml": b" " * size})
    return body.replace(size.to_bytes(4, "little"), (1).to_bytes(4, "little"))


def _entities() -> bytes:
    levels = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
    doctype = f'<!DOCTYPE x [<!ENTITY e0 "lol">{levels}]>'
    return word_with("<w:p><w:r><w:t>&e11;</w:t></w:r></w:p>", doctype=doctype)


def _external_entity() -> bytes:
    doctype = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    return word_with("<w:p><w:r><w:t>[&e;]</w:t></w:r></w:p>", doctype=doctype)


def _external_picture() -> bytes:
    """A document that refers to pictures elsewhere."""
    relation = (
        '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"'
        ' Target="file:///etc/passwd" TargetMode="External"/>'
    )
    types = "http://schemas.openxmlformats.org/package/2006/relationships"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006"
    picture = (
        f'<w:drawing><wp:inline xmlns:wp="{drawing}/wordprocessingDrawing"><a:graphic xmlns:a="{drawing}/main">'
        f'<a:graphicData><pic:pic xmlns:pic="{drawing}/picture"><pic:blipFill><a:blip r:link="r1"'
        ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/></pic:blipFill></pic:pic>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing>"
    )
    body = word_with(f"<w:p><w:r><w:t>seen</w:t>{picture}</w:r></w:p>")
    relations = f'<Relationships xmlns="{types}">{relation}</Relationships>'
    return changed(body, {"word/_rels/document.xml.rels": relations})


def _wide_sheet() -> bytes:
    """Two cells that are as far apart as a sheet allows: as a table, 17 billion."""
    cells = (
        '<row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    )
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        f"{cells}</sheetData></worksheet>"
    )
    return changed(workbook({"A": [["x"]]}), {"xl/worksheets/sheet1.xml": sheet})


def _endless_parts() -> bytes:
    """An e-mail in an e-mail in an e-mail."""
    head = b"From: a@example.com\nContent-Type: message/rfc822\n\n"
    return head * 5_000 + b"From: a@example.com\n\nx"


ENDS = (
    case("bomb.docx", _bomb, refusal=refusals.TOO_LARGE),
    case("lying.xlsx", _lying_bomb, refusal=refusals.DAMAGED),
    case("entities.docx", _entities, refusal=refusals.UNREADABLE),
    case("external.docx", _external_entity, "[]"),
    case("linked.docx", _external_picture, "seen"),
    case(
        "deep.docx",
        lambda: word_with("<w:sdt><w:sdtContent>" * 50_000 + "</w:sdtContent></w:sdt>" * 50_000),
        refusal=refusals.UNREADABLE,
    ),
    case("heavy.txt", lambda: b"x" * 64 * 1024 * 1024, refusal=refusals.TOO_MUCH_MEMORY),
    case("wide.xlsx", _wide_sheet, refusal=refusals.UNREADABLE),
    case("pages.pdf", lambda: pdf(["x"], claimed_pages=100_000), refusal=refusals.TOO_MANY_PAGES),
    case(
        "loop.pdf",
        lambda: pdf(["x"]).replace(b"/Kids[4 0 R]", b"/Kids[2 0 R]"),
        refusal=refusals.DAMAGED,
    ),
    case("deep.html", b"<div>" * 200_000, refusal=refusals.TOO_SLOW),
    case("parts.eml", _endless_parts, refusal=refusals.UNREADABLE),
)
