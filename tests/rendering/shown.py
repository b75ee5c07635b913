"""What an answer shows after some events, as elements or as text."""

from chat.events import Event
from tests.rendering.dom import Element, parse
from tests.rendering.stories import answer_of


def page_of(*story: Event) -> Element:
    return parse(answer_of(*story).snapshot())


def text_of(*story: Event) -> str:
    return page_of(*story).words()


def unfolded(*story: Event) -> Element:
    """The page with the contents of all folds."""
    answer = answer_of(*story)
    answer.unfold()
    return parse(answer.snapshot())


def phase_of(*story: Event) -> str:
    """The text of the phase strip."""
    return parse(answer_of(*story).phase()).words()
