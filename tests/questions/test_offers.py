"""Options and fields of a question, limited to what a person can read."""

from chat.result import asks


def test_options_and_fields_are_limited() -> None:
    many = [f"option {number}" for number in range(5000)]
    fields = [{"name": f"field {number}", "options": many} for number in range(1000)]
    body = {"options": many, "fields": fields}

    assert [one.value for one in asks.options_in(body)] == many[: asks.MOST_OPTIONS]
    assert len(asks.fields_in(body)) == asks.MOST_FIELDS
    assert len(asks.fields_in(body)[0].options) == asks.MOST_OPTIONS
