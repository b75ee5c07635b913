"""Secrets are masked in a recording that is downloaded, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat.upstreams.redaction import MARK, redact_patterns

SEAL = "EpQBCkYIBxgCKkBwMT" * 4
BASE = "iVBORw0K" * 400
PICTURE = f"data:image/png;base64,{BASE}"


SECRETS = (
    ('{"type":"signature_delta","signature":"SEAL"}', SEAL),
    ('{"type":"redacted_thinking","data":"SEAL"}', SEAL),
    ('{"data":"SEAL","type":"reasoning.encrypted"}', SEAL),
    ('{"encrypted_content": "SEAL", "id": "rs_1"}', SEAL),
    ('{"encrypted_index":"SEAL"}', SEAL),
    ('{"signature":"SEAL', SEAL),
    ('{"signature":"with \\" a quote SEAL"}', SEAL),
    ('{"headers":{"Authorization":"Bearer abcdefghijklmnop"}}', "abcdefghijklmnop"),
    ('{"message":"the header was Bearer abcdefghijklmnop."}', "abcdefghijklmnop"),
    ('{"api_key":"hunter22"}', "hunter22"),
    ('{"message":"Incorrect key sk-proj-Abcdefghijklmnop1234"}', "Abcdefghijklmnop1234"),
    ('{"url":"PICTURE"}', "iVBORw0KiVBORw0K"),
    ('{"b64_json":"SEAL"}', SEAL),
    # Cut within an escape, and with a line's end inside.
    ('{"signature":"SEAL\\', SEAL),
    ('{"signature":"SEAL\\\nSEAL"}', SEAL),
    # However the member is spelt.
    ('{"X-Api-Key":"hunter22"}', "hunter22"),
    ('{"OPENAI_API_KEY": "hunter22"}', "hunter22"),
    ('{"Set-Cookie":"session=hunter22; Path=/"}', "hunter22"),
    ('{"id_token":"hunter22"}', "hunter22"),
    ('{"db-password":"hunter22"}', "hunter22"),
    # JSON inside of a string, as the arguments of calls are sent; also where a piece ends.
    (r'{"arguments":"{\"api_key\": \"hunter22\", \"river\": \"Leda\"}"}', "hunter22"),
    (r'{"arguments":"{\"password\":\"a\\\"hunter22\"}"}', "hunter22"),
    (r'{"partial_json":"{\"api_key\":\"hunter"}', "hunter"),
    (r'{"partial_json":"{\"api_key\":\"hunter\\"}', "hunter"),
    # And that inside of another, as results of tools are.
    (r'{"output":"[{\"text\":\"{\\\"api_key\\\": \\\"hunter22\\\"}\"}]"}', "hunter22"),
    (r'{"output":"[{\"text\":\"{\\\"api_key\\\":\\\"a\\\\\\\"hunter22\\\"}\"}]"}', "hunter22"),
    # Behind a line's end, which JSON writes as a letter.
    (r'{"content":"The key:\nsk-proj-Abcdefghijklmnop1234"}', "Abcdefghijklmnop1234"),
    (r'{"content":"\nBearer abcdefghijklmnop1"}', "abcdefghijklmnop1"),
    (r'{"content":"\u003eghp_Abcdefghijklmnop1234"}', "Abcdefghijklmnop1234"),
    # Headers, settings, addresses.
    (r'{"content":"curl -H \"x-api-key: hunter22x\""}', "hunter22x"),
    ('{"content":"AUTH_TOKEN=hunter22x"}', "hunter22x"),
    ('{"url":"https://a.example/x?api_key=hunter22&b=1"}', "hunter22"),
    ('{"url":"https://a.example/x?a=1&X-Amz-Signature=hunter22"}', "hunter22"),
    (r'{"url":"https://a.example/x?a=1\u0026sig=hunter22"}', "hunter22"),
    ('{"url":"postgresql://river:hunter22@db/leda"}', "hunter22"),
    ('{"content":"BEARER hunter22hunter22"}', "hunter22"),
    ('{"content":"Basic cml2ZXI6aHVudGVyMjI="}', "cml2ZXI6aHVudGVyMjI"),
    ('{"content":"AIzaSyA-123456789012345678901234567890"}', "123456789012"),
    ('{"content":"eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"}', "c2ln"),
    (
        r'{"content":"-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY-----"}',
        "hunter22",
    ),
    (r'{"content":"-----BEGIN PRIVATE KEY-----\nhunter22\\"}', "hunter22"),
    ('{"password":12345678}', "12345678"),
    (r'{"arguments":"{\"api_key\": 12345678.5}"}', "12345678"),
    (
        r'{"content":"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nhunter22\n'
        r'-----END RSA PRIVATE KEY-----"}',
        "hunter22",
    ),
    (r'{"content":"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nhunter22"}', "hunter22"),
    # Files that are no addresses, and those whose slashes are escaped.
    ('{"type":"image","data":"BASE"}', "iVBORw0KiVBORw0K"),
    (r'{"output":"[{\"type\":\"image\",\"data\":\"BASE\"}]"}', "iVBORw0KiVBORw0K"),
    ('{"type":"response.audio.delta","delta":"BASE"}', "iVBORw0KiVBORw0K"),
    (r'{"url":"data:image\/png;base64,BASE"}', "iVBORw0KiVBORw0K"),
)
HARMLESS = (
    '{"type":"message.delta","content":"The signature of the river is its sound."}',
    '{"type":"content_block_delta","delta":{"type":"text_delta","text":"a secret: \\"x\\""}}',
    '{"choices":[{"delta":{"content":"task-force and risk-averse people"}}]}',
    '{"data":"what a tool says","type":"tool"}',
    "data: data:image/png;base64,iVBORw0K",
    ": a comment\n\n",
    '{"content":"It takes a basic understanding of basic communication-skills."}',
    '{"content":"the bearer recommends it"}',
    r'{"content":"api_key = os.environ[\"KEY\"]\npassword: ask somebody"}',
    r'{"content":"It begins with \"-----BEGIN PRIVATE KEY-----\" and a line."}',
    '{"token":"Hello","logprob":-0.1}',
    '{"input_tokens":12,"max_tokens":4096}',
    '{"url":"https://a.example/?key=short&page=2"}',
    '{"url":"https://a.example:8080/@river"}',
    '{"content":"the risk-assessment, a task_force and the desk-"}',
)


def test_secrets_are_masked(subtests: pytest.Subtests) -> None:
    for template, secret in SECRETS:
        with subtests.test(msg=template):
            text = template.replace("SEAL", SEAL).replace("PICTURE", PICTURE).replace("BASE", BASE)

            assert secret not in redact_patterns(text)
            assert MARK in redact_patterns(text)


def test_harmless_texts_stay_unchanged(subtests: pytest.Subtests) -> None:
    for text in HARMLESS:
        with subtests.test(msg=text):
            assert redact_patterns(text) == text


PIECES = ("api_key", "secret", "Bearer ", "sk-proj-", "data:a/b;base64,", "?key=", "://a:b@", "=")
PIECES += ("1aB" * 8, "signature", ":", '"', "\\", "\n", "{", " ", "é", "password")
PIECES += ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-")
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)


NUMBERS = st.sampled_from((12345678, -1.5e-30, None, True))


@given(
    st.recursive(
        TEXTS | NUMBERS, lambda inner: st.dictionaries(TEXTS, inner) | inner.map(json.dumps)
    )
)
@example({"password": 12345678})
@example('{"password":12345678}')
@example('-----BEGIN PRIVATE KEY-----a"b')
def test_masked_json_is_still_json(value: object) -> None:
    assert isinstance(json.loads(redact_patterns(json.dumps({"value": value}))), dict)
