"""Hostile addresses: disguised schemes, deceptive hosts, and paths into the application.

The kinds follow the URL tests of the web platform; each disguise is applied to every scheme.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

SCRIPT = "hit()"
PAGE = f"<script>parent.{SCRIPT};{SCRIPT}</script>"
FOREIGN = "evil.test"

# Scheme -> what follows its colon.
SCHEMES = {
    "javascript": f"{SCRIPT}//",
    "vbscript": 'MsgBox("x")',
    "livescript": SCRIPT,
    "data": f"text/html,{PAGE}",
    "blob": f"http://{FOREIGN}/0b8f6c1e-58a5-4f8f-9d0b-3f7f1c2f5a10",
    "filesystem": f"http://{FOREIGN}/temporary/x.html",
    "file": "///etc/passwd",
    "view-source": f"http://{FOREIGN}/",
    "ws": f"//{FOREIGN}/socket",
    "wss": f"//{FOREIGN}/socket",
    "ftp": f"//{FOREIGN}/x",
    "about": "blank",
    "chrome": "//settings/",
    "intent": f"//{FOREIGN}/#Intent;scheme=http;end",
    "ms-msdt": "/id PCWDiagnostic",
    "tel": "+1900123",
}

# Spellings of a scheme that a comparison of texts misses and a browser understands.
DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": lambda scheme: f"{scheme}:",
    "mixed case": lambda scheme: "".join(
        letter.upper() if at % 2 else letter for at, letter in enumerate(f"{scheme}:")
    ),
    "tab inside": lambda scheme: f"{scheme[:2]}\t{scheme[2:]}:",
    "newline inside": lambda scheme: f"{scheme[:3]}\n{scheme[3:]}:",
    "return before the colon": lambda scheme: f"{scheme}\r:",
    "control before": lambda scheme: f"\x01\x1f{scheme}:",
    "space before": lambda scheme: f" \x0c{scheme}:",
    "NUL inside": lambda scheme: f"{scheme[:2]}\0{scheme[2:]}:",
    "entity for a letter": lambda scheme: f"&#x{ord(scheme[0]):x};{scheme[1:]}:",
    "entity without an end": lambda scheme: f"&#{ord(scheme[0]):07d}{scheme[1:]}:",
    "entity for the colon": lambda scheme: f"{scheme}&colon;",
    "entity for a tab": lambda scheme: f"{scheme[:1]}&Tab;{scheme[1:]}&NewLine;:",
    "percent for the colon": lambda scheme: f"{scheme}%3A",
    "escaped twice": lambda scheme: f"{scheme}&amp;colon;",
    "backslash before the colon": lambda scheme: f"{scheme}\\:",
    "zero width inside": lambda scheme: f"{scheme[:1]}\u200b{scheme[1:]}:",
    "soft hyphen inside": lambda scheme: f"{scheme[:1]}\u00ad{scheme[1:]}:",
    "byte order mark before": lambda scheme: f"\ufeff{scheme}:",
    "full width": lambda scheme: "".join(chr(ord(one) + 0xFEE0) for one in scheme) + ":",
    "line separator before": lambda scheme: f"\u2028{scheme}:",
}
# Schemes that run scripts get all disguises, the others these.
_ALWAYS = ("plain", "mixed case", "tab inside", "control before", "entity for the colon")
_RUNS = ("javascript", "vbscript", "data", "blob", "file")

OTHER_DATA = [
    "data:text/html;base64," + base64.b64encode(PAGE.encode()).decode(),
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='hit()'/>",
    "data:application/xhtml+xml,<x xmlns:h='http://www.w3.org/1999/xhtml'><h:script>hit()</h:script></x>",
    "data:text/javascript,hit()",
    "data:;charset=utf-7,+ADw-script+AD4-hit()+ADw-/script+AD4-",
    "data:text/html;charset=iso-2022-jp,%1B$B<script>hit()</script>",
    "data:text/xml,<?xml-stylesheet href='javascript:hit()'?><a/>",
    "data:,javascript:hit()",
    "data:image/png;base64,iVBORw0KGgo=",
    "data:text/html,<meta http-equiv=refresh content='0;url=http://evil.test/'>",
]
OTHER_SCRIPT = [
    "javascript://evil.test/%0ahit()",
    "javascript://%0Dhit()//",
    "javascript:/*--></title></style></textarea></script><svg onload=hit()>*/hit()",
    "javascript:hit('<script>hit()</script>')",
    "javascript:top[8680439..toString(30)]()",
    "javascript&#58;hit()",
    "javascript&#x3A;hit()",
    "&#106&#97&#118&#97&#115&#99&#114&#105&#112&#116&#58hit()",
    "&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3Ahit()",
    "java&#x09;script:hit()",
    "java&#x0A;script:hit()",
    "java\\0script:hit()",
    "jav&#x09;a&#x0D;script&colon;hit&lpar;&rpar;",
    "\\javascript:hit()",
    "//javascript:hit()",
    "javascript:hit()?https://good.test/",
    "javascript:https://good.test/%0ahit()",
    "https:javascript:hit()",
    "feed:javascript:hit()",
    "view-source:javascript:hit()",
    "jar:javascript:hit()!/x",
    "mocha:hit()",
    "mhtml:http://evil.test/x!javascript",
    "x:javascript:hit()",
    "url:javascript:hit()",
    "wyciwyg://0/javascript:hit()",
]
# Content must never link into the application; all of these would.
RELATIVE = [
    *("", "#", "#composer", "?", "?at=1", ".", "..", "/", "/accounts/logout/", "accounts/logout/"),
    *(
        "./c/",
        "../c/",
        "../../../admin/",
        "/admin/",
        "/static/conversations/page.js",
        "/%2e%2e/admin/",
    ),
    *("/\\evil.test", "\\/evil.test", "\\\\evil.test\\x", "/\t/evil.test", "/\n/evil.test/"),
    *("//evil.test", "//evil.test/x", "///evil.test", "////evil.test/x", "/.//evil.test"),
    *("//evil.test:80/", "//user@evil.test/", "//[::1]/", "//0/", "//\u3002evil.test"),
    *("http:accounts/logout/", "http:/accounts/logout/", "https:evil.test", "http:\\evil.test"),
    *("http:\\\\evil.test/", "https:///evil.test/", "http:////evil.test", "http:/\\evil.test"),
    *("http:\t//evil.test", "ht\ntp://evil.test/", "http", "http:", "http://", "https://", "://"),
    *(":", ":80", "://evil.test", "@evil.test", "evil.test", "www.evil.test", "%", "%00", "\0"),
    *("http%3A//evil.test/", "http&colon;//evil.test", " ", "\t", "\n", "\u2028", "\\", "\\.."),
]
# The host that a person reads is not the one where the browser goes, or it is no host at all.
DECEIVING = [
    "https://good.test@evil.test/",
    "https://good.test:443@evil.test/",
    "https://good.test%2f@evil.test/",
    "https://good.test%40evil.test/",
    "https://evil.test\\@good.test/",
    "https://evil.test\\.good.test/",
    "https://evil.test\\good.test",
    "https://evil.test/@good.test/",
    "https://evil.test?@good.test/",
    "https://evil.test#@good.test/",
    "https://evil.test:80#@good.test:81/",
    "https://a@b@evil.test/",
    "https://@evil.test/",
    "https://:@evil.test/",
    "https://user:pass@evil.test/x",
    "https://good.test\t.evil.test/",
    "https://good\n.test@evil.test/",
    "https://\tevil.test/",
    "https://\t/evil.test/",
    "https://\n\\evil.test/",
    "https://evil.test\t\\@good.test/",
    "https://EVIL.TEST/",
    "HtTpS://Evil.Test:443/",
    "HTTP://evil.test./",
    "https://evil。test/",
    "https://evil．test/",
    "https://ｅｖｉｌ.test/",
    "https://%65%76%69%6c.test/",
    "https://evil%2etest/",
    "https://evil%00.test/",
    "https://evil%2f.good.test/",
    "https://evil%5c.good.test/",
    "https://evil%23.good.test/",
    "https://evil.test%20.good.test/",
    "https://evil.test .good.test/",
    "https://evil.test<.good.test/",
    "https://evil.test^.good.test/",
    "https://evil.test|.good.test/",
    "https://аpple.com/",  # The first letter is Cyrillic.
    "https://аррӏе.com/",  # All letters are Cyrillic.
    "https://gооgle.com/",
    "https://paypaⅼ.com/",
    "https://xn--pple-43d.com/",
    "https://xn--/",
    "https://xn--a/",
    "https://münchen.example/",
    "https://faß.example/",
    "https://straße.example/",
    "https://例え.テスト/",
    "https://good.test\u202emoc.live/",
    "https://good\u200b.test/",
    "https://good\u00ad.test/",
    "https://good\u2060.test/",
    "https://go\u0338od.test/",
    "https://good.test\u2044evil.test/",
    "https://good.test\uff0fevil.test/",
    "https://good.test\u2215evil.test/",
    "https://ⓖⓞⓞⓓ.test/",
    "https://⁄evil.test/",
    "https://©.test/",
    "https://💩.test/",
    "https://a..b.test/",
    "https://.evil.test/",
    "https://-evil.test/",
    "https://evil_.test/",
    "https://*.evil.test/",
    "https://evil.test:99999/",
    "https://evil.test:x/",
    "https://evil.test:/",
    "https://evil.test:0080/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://0x7f.1/",
    "https://１２７.0.0.1/",
    "https://256.1.1.1/",
    "https://1.2.3.4.5/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::1%25eth0]/",
    "https://[evil.test]/",
    "https://[/",
    "https://]/",
    "https://[::1/",
    "https://evil.test/\u202egnp.exe",
    "https://evil.test/%0d%0aSet-Cookie:x",
    "https://evil.test/?q=https://good.test/",
    "https://evil.test/#https://good.test/",
    'https://evil.test/" onmouseover="hit()',
    "https://evil.test/' onmouseover='hit()",
    "https://evil.test/`onmouseover=hit()",
    "https://evil.test/><img/src/onerror=hit()>",
    "https://evil.test/&quot;&gt;&lt;svg/onload=hit()&gt;",
    "https://evil.test/&#x22;onfocus=hit()",
    "https://evil.test/\u2028onmouseover=hit()",
    "https://evil.test/\0",
    "https://evil.test/\x7f\x80\x9f",
    "https://evil.test/" + "a" * 4000,
    "https://" + "a" * 300 + ".test/",
    "https://" + "a." * 200 + "test/",
    "https://" + "%61" * 200 + ".test/",
    "https://ſecure.test/",
    "https://ℓ.test/",
    "https://K.test/",
]
MAIL = [
    "mailto:a@evil.test",
    "MAILTO:a@evil.test",
    "mailto:",
    "mailto:a@evil.test?subject=x&body=javascript:hit()",
    "mailto:a@evil.test%0d%0aBcc:b@evil.test",
    "mailto:javascript:hit()",
    'mailto:"><img src=x onerror=hit()>@evil.test',
    "mailto\t:a@evil.test",
    "mail\nto:a@evil.test",
    "mailto://evil.test/",
]


def _hidden() -> Iterator[str]:
    for scheme, rest in SCHEMES.items():
        names = DISGUISES if scheme in _RUNS else _ALWAYS
        for name in names:
            yield DISGUISES[name](scheme) + rest


ADDRESSES = [*_hidden(), *OTHER_DATA, *OTHER_SCRIPT, *RELATIVE, *DECEIVING, *MAIL]
