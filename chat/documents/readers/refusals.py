"""Why a document can't be read, for people: what is the matter, and what to do about it.

The sentences are stored in English and translated when they are shown, as all people who attach the same file share
what was read of it.
"""

from __future__ import annotations


def gettext_noop(sentence: str) -> str:
    """Marks a sentence for translators. Django has such a function, but a reader can't import it."""
    return sentence


EMPTY = gettext_noop("This file is empty.")
DAMAGED = gettext_noop(
    "This file is damaged and can’t be read. Save it again in its program, then attach the new file."
)
WRONG_TYPE = gettext_noop(
    "The content of this file doesn’t match its name. Save it again in its program, then attach the"
    " new file."
)
PASSWORD = gettext_noop(
    "This file is protected with a password. Save a copy without one, then attach that."
)
OLD_FORMAT = gettext_noop(
    "This format can’t be read. Save the file in a current format, such as .docx, .pptx or PDF, then"
    " attach that."
)
NOT_TEXT = gettext_noop(
    "This file isn’t text. Attach a PDF, an Office document, an e-mail, or plain text."
)
UNKNOWN_ENCODING = gettext_noop(
    "The encoding of this text is unknown. Save it as UTF-8, then attach it again."
)
TOO_MANY_PAGES = gettext_noop(
    "This document has too many pages. Split it, then attach the parts you need."
)
TOO_LONG = gettext_noop(
    "This document has too much text. Split it, then attach the parts you need."
)
TOO_LARGE = gettext_noop(
    "This file is too large once it is unpacked. Split it, then attach the parts you need."
)
TOO_MUCH_MEMORY = gettext_noop(
    "Reading this file needs too much memory. Split it, or save it as a PDF or plain text, then attach"
    " that."
)
TOO_SLOW = gettext_noop(
    "Reading this file takes too long. Split it, or save it as a PDF or plain text, then attach that."
)
# Said by the job, not by a reader.
UNREADABLE = gettext_noop(
    "This file is damaged, or too complex to be read. Save it again in its program, or as a PDF, then"
    " attach the new file."
)
REMOVED = gettext_noop("This file was removed before it was read. Attach it again.")
# The sentences that a reader may say: its process has read the file, so its word isn't trusted.
KNOWN = frozenset(
    {
        *(EMPTY, DAMAGED, WRONG_TYPE, PASSWORD, OLD_FORMAT, NOT_TEXT, UNKNOWN_ENCODING),
        *(TOO_MANY_PAGES, TOO_LONG, TOO_LARGE),
    }
)
