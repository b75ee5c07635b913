"""Options and fields of a question, limited to what a person can read."""

from chat.actions import offers


def test_options_and_fields_are_limited() -> None:
    many = [f"option {number}" for number in range(5000)]
    fields = [{"name": f"field {number}", "options": many} for number in range(1000)]
    body = {"options": many, "fields": fields}

    assert [one.value for one in offers.options_in(body)] == many[: offers.MOST_OPTIONS]
    assert len(offers.fields_in(body)) == offers.MOST_FIELDS
    assert len(offers.fields_in(body)[0].options) == offers.MOST_OPTIONS
