"""The texts that the demo upstream speaks."""

import random
from collections.abc import Iterator

# --- what it says about itself ---------------------------------------------------------------

WELCOME = """\
Hello! I am the **demo upstream**: a small server that speaks like a language model without being \
one. It runs beside Tributary on this machine, knows nothing, sends nothing anywhere, and streams \
prepared texts so that you can see how everything looks before you connect a model of your own.

Put one of these words into your message to choose what I show:

- `long` – an essay of about 1,800 words; `very long` runs to 20,000, so try the stop button
- `code` – Markdown with highlighted Python, JavaScript, shell and a diff
- `tool` – a tool call with its result; add `fail` for a second call that goes wrong
- `think` – a long reasoning before the answer
- `table` – tables, task lists, nested lists, quotes and links
- `unicode` – many scripts, right-to-left text, emoji, combining marks
- `slow` – a prompt that takes 15 seconds to process
- `load` – the model is loaded again before it answers
- `refuse` – an answer that politely says no
- `error` – an error in the middle of the answer
- `cut` – a connection that breaks off in the middle of the answer

The last words combine with the others: *slow code*, *long cut*, *load table*.
"""

WELCOME_BACK = """\
I still have nothing to say of my own, but I do remember the way we came. Type `long`, `code`, \
`tool`, `think`, `table`, `unicode`, `slow`, `load`, `refuse`, `error` or `cut` to see something \
else, or edit an earlier message and watch the conversation fork: the branch that you leave stays \
where it was, like an oxbow lake.
"""

THOUGHT = """\
Somebody has written to the demo. I cannot look anything up and I should not pretend to. The \
honest thing is to say what I am, and then to show the way to the parts worth seeing.
"""

LOADED = """\
The model had been put away, so it was fetched again: you saw the progress of loading before these \
words came. It will stay loaded now, and the next answer starts at once.
"""

SLOWLY = """\
That took a while. A long prompt has to be read before the first word of the answer can be \
written, and on a small machine the reading is the slow part. The bar above the composer showed \
how far it had come; stopping would have worked there too.
"""

REFUSAL = """\
I would rather not help with that one. Nothing is wrong with your asking, and nothing is broken: \
this is simply what an answer looks like when a model declines. Ask me for something else, and I \
will gladly go on.
"""

BEFORE_THE_BREAK = """\
Upstream of the weir the river looks as if nothing could ever happen to it. The surface is flat, \
the willows stand in it twice, once upwards and once downwards, and a leaf takes a whole minute to \
pass the jetty. Whoever watches for the first time expects the afternoon to go on like this.

Then the sound changes. It is not loud at first, more a thickening of the air than a noise, and \
the leaf, which has been dawdling along the bank, turns once around itself and begins to hurry, \
as if it had remembered an appointment. A few metres further on there is
"""

# --- reasoning ------------------------------------------------------------------------------

RIDDLE_THOUGHTS = """\
Let me set the scene. A paddler goes upstream. Under a bridge a bottle falls out of the boat and \
nobody notices. After twenty minutes the paddler turns around, and catches up with the bottle two \
kilometres below the bridge. How fast does the river flow?

The straightforward way: let the paddler's speed in still water be *v* and the river's *r*, in \
kilometres per hour. Upstream for a third of an hour covers (v − r)/3. The way back down to the \
bottle is that distance plus two kilometres, at speed v + r. The bottle meanwhile has floated two \
kilometres at speed r, so the whole time since the bridge is 2/r.

So 1/3 + ((v − r)/3 + 2)/(v + r) = 2/r. That is one equation with two unknowns, which looks bad. \
Multiply out anyway. The left side is (v + r + v − r + 6) / (3(v + r)) = (2v + 6) / (3(v + r)). \
Set that equal to 2/r: r(2v + 6) = 6(v + r), so 2vr + 6r = 6v + 6r, so 2vr = 6v, so r = 3. The \
unknown v drops out by itself. Whenever that happens there should be a reason.

The reason must be the frame of reference. Sit on the bottle. From there the water does not move \
at all, the paddler goes away for twenty minutes and, at the same speed in the same still water, \
needs twenty minutes to come back. Forty minutes in all. In that time the bridge has moved two \
kilometres away from me. Two kilometres in forty minutes is three kilometres per hour.

Check: with v = 6, upstream is 3 km/h for twenty minutes, so 1 km. Then 3 km down at 9 km/h is \
twenty minutes. Yes. Both ways agree, and the second needs no algebra. I will answer with the \
second and mention that the paddler's strength does not matter.
"""

RIDDLE_ANSWER = """\
Here is a riddle that rewards thinking, and its answer.

> A paddler goes upstream. Under a bridge a bottle falls out of the boat unnoticed. Twenty minutes \
later the paddler turns around, and reaches the bottle two kilometres below the bridge. How fast \
is the river?

**Three kilometres per hour**, however strong the paddler is.

Imagine that you are sitting on the bottle. For you the water stands still: the boat leaves for \
twenty minutes and needs the same twenty minutes to return. In those forty minutes the bridge has \
drifted away from you by two kilometres, and two kilometres in forty minutes are three in an hour.

The reasoning above first tried algebra, noticed that one unknown cancelled, and looked for the \
reason. Fold it away or open it as you like; it is kept with the answer.
"""

# --- tools ------------------------------------------------------------------------------------

TOOL_THOUGHTS = """\
The question is about the state of the river, and that is nothing I could know by heart. There is \
a gauge at Mill Bridge that I may ask. One day of readings is enough to see whether it rises.
"""

TOOL_FIRST_WORDS = "Let me look at the gauge before I say anything about the river.\n"

TOOL_ANSWER = """\
The gauge at **Mill Bridge** reads **2.31 m**, and `read_gauge` says that it has been rising:

| time | level | flow |
| --- | ---: | ---: |
| 06:00 | 1.94 m | 41 m³/s |
| 12:00 | 2.12 m | 49 m³/s |
| 18:00 | 2.31 m | 58 m³/s |

That is 37 centimetres in twelve hours, still 1.19 m below the mark at which the lower meadow is \
closed. If it goes on like this, the meadow stays dry until tomorrow night.
"""

TOOL_FAILED_ANSWER = """\
I also tried to open the sluice, but there is no tool with the name `open_sluice` here, so nothing \
was moved. The reading above is true all the same; somebody with a key will have to do the rest.
"""

TOOL_OUTSIDE = """\
I would ask the gauge at Mill Bridge now. Over this interface the call is yours to run: I stop \
here and go on as soon as its result is sent back to me.
"""

NO_TOOLS = """\
I would call a tool now, but none came with your message. Define one for your team, switch it on \
for this conversation, and ask again.
"""

# --- Markdown ------------------------------------------------------------------------------------

CODE = '''\
Several streams, one reader: here is the same small idea in a few languages.

## Merging streams in Python

```python
import asyncio
from collections.abc import AsyncIterator


async def confluence(*streams: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield from every stream as soon as it has something to say."""
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=64)

    async def carry(stream: AsyncIterator[str]) -> None:
        async for drop in stream:
            await queue.put(drop)
        await queue.put(None)

    async with asyncio.TaskGroup() as banks:
        for stream in streams:
            banks.create_task(carry(stream))
        running = len(streams)
        while running:
            drop = await queue.get()
            if drop is None:
                running -= 1
            else:
                yield drop
```

The bound of the queue is the whole trick: a slow reader slows the writers down, and nobody has to \
keep a lake in memory.

## Reading one in the browser

```javascript
const response = await fetch("/api/v1/runs/42/events?after=0");
const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();

for (let rest = ""; ; ) {
  const { value, done } = await reader.read();
  if (done) break;
  const blocks = (rest + value).split("\\n\\n");
  rest = blocks.pop();
  for (const block of blocks) {
    const data = block.match(/^data: (.*)$/m);
    if (data) console.log(JSON.parse(data[1]).type);
  }
}
```

## Or from a shell

```bash
# Follow a run and keep only the text, as it arrives.
curl --no-buffer --silent "$SITE/api/v1/runs/$RUN/events?after=0" \\
  | grep --line-buffered '^data: ' \\
  | sed -u 's/^data: //' \\
  | jq --unbuffered -rj 'select(.type == "message.delta") | .content'
```

## What changed since the first attempt

```diff
--- a/confluence.py
+++ b/confluence.py
@@ -7,7 +7,7 @@
-    queue: asyncio.Queue[str] = asyncio.Queue()
+    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=64)

-    async for drop in streams[0]:
-        yield drop
+    async with asyncio.TaskGroup() as banks:
```

A block without a language is left as it is, angle brackets and all:

```
<river name="Elder"> & <brook name="Ash"> meet at 51° N
```

Inline code such as `queue.get()` stays in the line, and a block can sit in a list:

1. Start the server.
2. Send a message:

   ```json
   {"model": "tributary/demo-coder", "input": "show me code", "stream": true}
   ```

3. Watch.
'''

TABLE = """\
# A field guide to the Elder

Everything below is made up, but it is laid out with care.

## Tributaries

| Name | Side | Length | Mouth | Mood |
| :--- | :---: | ---: | ---: | :--- |
| Ash Brook | left | 12.4 km | km 18 | *hurried* |
| Mill Race | right | 3.1 km | km 24 | **loud** |
| Old Ditch | left | 7.9 km | km 31 | ~~dry~~ dry in August |
| Long Water | right | 28.0 km | km 47 | `calm` |

## Before you set out

- [x] Read the gauge at Mill Bridge
- [x] Tell somebody where you are going
- [ ] Pack a dry shirt
- [ ] Decide who steers
  - [x] not both at once
  - [ ] not nobody

## Reading the water

1. Look at the surface.
   - Smooth and dark means deep.
   - A *V* that points downstream is a way through.
     - A *V* that points upstream is a stone.
       1. Small stone: go round it.
       2. Large stone: go round it earlier.
2. Listen.
3. Only then get into the boat.

> The river is not in a hurry. It is only always on time.
>
> > And the ferry?
>
> The ferry waits for people, which is why it is late.

---

### Where to read on

The gauge has [a page of its own](https://example.org/gauges/mill-bridge "Mill Bridge"), the ferry \
answers letters at [ferry@example.org](mailto:ferry@example.org), and the map is described in \
[the guide][guide].

Line one ends here,\\
and line two begins after a hard break.

[guide]: https://example.org/guide
"""

# The rocket is sent as two halves of a surrogate pair; see `scenes.Message.splits_a_pair`.
UNICODE = """\
One river, many names for it. 🚀

| language | word | a sentence |
| --- | --- | --- |
| English | river | The river knows the way. |
| Español | río | El río conoce el camino. |
| Ελληνικά | ποτάμι | Το ποτάμι ξέρει τον δρόμο. |
| Русский | река | Река знает дорогу. |
| हिन्दी | नदी | नदी रास्ता जानती है। |
| ไทย | แม่น้ำ | แม่น้ำรู้ทาง |
| 中文 | 河 | 河流知道方向。 |
| 日本語 | 川 | 川は道を知っている。 |
| 한국어 | 강 | 강은 길을 안다. |

From right to left:

النهر يعرف الطريق، ولا يحتاج إلى خريطة.

הנהר מכיר את הדרך, ואינו צריך מפה.

Mixed in one line: the word נהר means *river*, and so does نهر, even next to the number 42.

- Combining marks: e\u0301 and é look alike, and Z\u0351\u036b\u0343a\u030a\u0320l\u0334 is stacked on purpose.
- Emoji: 🌊 🛶 🦦, a family 👩‍👩‍👧‍👦, a flag 🇳🇴, a skin tone 👋🏽, a keycap 3️⃣.
- A line separator\u2028and a paragraph separator\u2029stand in this sentence, and so does a next line\u0085here.
- No-break space\u00a0here, a zero-width\u200bspace there, a soft\u00adhyphen, a narrow\u202fspace.
- Mathematics: ∑ xᵢ² ≤ ‖x‖₁², ℝ³ → ℂ, 𝔸𝔹ℂ and 𝒶𝒷𝒸 beyond the first plane.
- Rare but real: 𠮷野家, ﷽, ꧁ river ꧂, ½ ⅓ ¼.
"""

# --- the long ones ---------------------------------------------------------------------------------

ESSAY = """\
# What a river knows about working together

Stand on any bridge for long enough and somebody will stop beside you and say that the river is \
high today, or low, or brown. Nobody ever says that it is *finished*. A river is the one thing in \
town that is always being delivered, and nobody waits for the end of it before using it. People \
fish in it, drink from it, complain about it and move house because of it, all while it is still \
arriving.

Most of the work that people do together does not feel like that. It feels like parcels. Somebody \
goes away, comes back with a parcel, and puts it on the table; the others unwrap it, are \
disappointed in one corner of it, and send it back. In between there is silence. The silence is \
where the trouble begins, because a silence looks the same whether somebody is nearly done, \
entirely lost, or asleep.

This essay is about the other way. It borrows from water what can be borrowed, and tries to be \
honest about where the comparison breaks.

## 1. The source is unimpressive

If you walk up a river to where it begins, you will be let down. There is no gate and no fountain. \
There is a wet meadow, a place where the ground gives under the boot, and somewhere in the grass a \
thread of water that you could dam with one hand. Maps print the name of the river beside it all \
the same, in the same letters that they use for the estuary.

Good questions look like this at their beginning. They are small, a little muddy, and it is not \
clear which way they want to run. The mistake is to leave them alone until they have become \
respectable. A question that is spoken early collects others on its way; a question that is kept \
until it is polished arrives with nobody.

> A spring does not apologise for being small. It only starts.

So the first rule is an easy one: **begin where others can see it.** An unfinished sentence in the \
open is worth more than a finished one in a drawer, because somebody may come along who knows how \
it ends.

## 2. Tributaries do not ask for permission

A large river is mostly other rivers. Take away what has joined it and you are left with that \
thread in the meadow. Yet nowhere along its course is there a meeting at which a brook applies to \
be admitted. It comes down its own valley, carrying its own kind of stone, and where the two \
valleys meet, the waters do.

For a while you can see them side by side. Below the place where a clear brook runs into a brown \
river there is a line on the surface, sharp as a seam, with clear water on one side and brown on \
the other. It may last for a mile. Then there are bends and stones and a mill or two, and at some \
point the line is gone, and nobody could say where.

Teams that work well have such seams, and are patient with them. The person who joins on Tuesday \
brings words that nobody else uses, and habits from another valley. The thing to do is neither to \
filter the water at the mouth nor to make a ceremony of it, but to let both run beside each other \
in the same bed until they have mixed. What matters is that it *is* the same bed. Three things \
help:

1. **One place.** If half of the talk happens in corners, the seam never closes.
2. **Everything from the beginning.** Whoever comes late should be able to walk upstream and read \
what was said, in the order in which it was said.
3. **No separate channel for the important people.** Water that runs in a pipe beside the river \
does not irrigate anything.

## 3. Speed is not the same as haste

There is a stretch of every river that is called *the rapids*, and a stretch that the anglers call \
*dead*. The second carries exactly as much water as the first; it is only wider and deeper there. \
An engineer will tell you that the amount passing per second is the same at both places, because \
it has to be, since nothing is stored on the way.

Watching words arrive one after the other on a screen has something of this. At times they tumble, \
at times a thought widens and nothing seems to move. The temptation is to look at the surface and \
draw conclusions. But the question to ask is not how fast the water is here. The question is \
whether it is *moving at all*, and this you can see only if somebody shows you the flow rather \
than the parcel.

That is why a bar that creeps is better than a wheel that turns. The wheel says: something is \
happening, trust me. The bar says: this much is done, and this much is left. And a line of text \
that grows says more than either, since you can already begin to disagree with it.

Disagreement, by the way, is best while it is cheap. To interrupt a sentence after eight words \
costs eight words. To send back a parcel costs the parcel.

## 4. What the banks are for

It is easy to admire the water and to forget the banks. But a river without banks is a flood, or a \
swamp; both contain plenty of water, and neither gets anywhere.

The banks of a conversation are the small agreements that nobody notices while they hold. Who may \
read this. Who may change it. What happens to it if the person who began it goes home. That what \
was said stays said: it may be answered, corrected, even regretted, but it does not silently turn \
into something else overnight. None of this is exciting. All of it is what makes it possible to \
speak freely, for people will step into a boat only if they can see both shores.

A good bank is also *permeable*. Meadows drink from the river in summer and feed it again in \
winter. In the same way a discussion needs to seep into the rest of the work: into the plan, the \
program, the letter that must go out on Friday. If the only way out of a conversation is to copy \
it by hand, much will stay where it lies.

## 5. Forks, islands, oxbows

Rivers divide. They come to a hard place, part around it, and usually find each other again below. \
The piece of land in between is called an island and has the best picnic spots.

Thinking divides in the same way. You ask; you get an answer; you wish that you had asked a little \
differently. So you go back to the place above the island and take the other arm. The important \
thing is that the first arm does not dry up because of it. Perhaps it was better after all. \
Perhaps a colleague is still fishing there. A tool for thinking should let both arms run, and show \
at the fork that there is a fork: a small sign, *one of two*, is enough.

And sometimes an arm is cut off for good. The river takes a short way through the neck of a bend, \
and the old bend remains as a still, curved lake. Geographers call it an oxbow. It is no longer \
part of the journey. But it is on the map, there are herons, and whoever wants to know how the \
river used to run can go and look. Nothing is gained by filling it in.

## 6. Low water, and other accidents

No description of a river is honest that leaves out the accidents. There is low water, when the \
ferry lies in the mud. There is ice. There are the nights when a tree comes down and lodges in the \
third arch of the bridge, and by the morning half a forest has piled up behind it.

What one learns from those who live on the water is not how to prevent all this. It is a certain \
way of dealing with it:

- They **say what happened** in plain words. *The ferry is aground*, not *an irregularity was \
encountered*.
- They **keep what was already across.** Nobody carries the passengers back to the other side \
because the second trip had to be cancelled.
- They **say what can be done now**: wait, walk to the bridge, or shout for my cousin who has a \
rowing boat.
- And they **do not do it twice.** When it is not known whether the letter is on the far bank \
already, they go and look, before they send another.

The last point is the subtle one. In a hurry everyone is tempted to repeat. But there are things, \
such as an order, a payment, or an instruction to a machine, which become something else when they \
are given twice. Better to hold still for a moment and to ask a person.

## 7. The estuary

Towards the end a river slows down, and grows wide, and it becomes difficult to say which part of \
it is still river. Twice a day the sea comes in to have a look. If you drop a cork into the water \
there, it drifts out a little, returns, and drifts out a little further.

People who have done something together know this stretch. The thing is nearly there. It goes out \
to the first readers and comes back with remarks; it goes out again. Whoever expects a *last step* \
will be annoyed by it. Whoever has watched an estuary knows that this, too, is a way of arriving.

And then at some point it is salt. Nobody was there at the exact moment. The thread from the \
meadow, the brooks from the side valleys, the mud, the mills, the two arms and the heron lake have \
all had a part in it, and none of them could point at its own drop in the sea and say: that one is \
mine.

It would be a sad thing if this were a loss. I do not think it is. The gauge keeper at the bridge, \
who has read the same scale every morning for thirty years, once put it like this: *You can only \
ever look at a piece of it. But it helps to know that it is all one water.*

## In one breath

Start in the open, let others flow in, show the movement rather than the parcel, keep the banks \
firm and the forks visible, speak plainly when a tree comes down, and do not be surprised that the \
end is wide. The rest the river does by itself.
"""

_PLACES = (
    "the mill", "the upper weir", "the ferry landing", "the third bridge", "the gravel bank",
    "the old lock", "the lower meadow", "the boatyard", "the gauge house", "the willow island",
)  # fmt: skip
_PEOPLE = (
    "the gauge keeper", "the ferrywoman", "a surveyor from the city", "the miller's daughter",
    "two boys with a net", "the lock master", "a painter who never finished anything",
    "the woman who mends nets", "an apprentice", "the pilot",
)  # fmt: skip
_WATERS = (
    "the Elder", "Ash Brook", "the Long Water", "the mill race", "the flood channel",
    "the Old Ditch", "the eastern arm", "the river", "the stream below the rocks", "the tide",
)  # fmt: skip
_TIMES = (
    "In the first week of March", "Before it was light", "On the day after the fair",
    "Late in a dry summer", "When the ice had gone", "One evening, without any warning",
    "At the hour when the bats come out", "Between two showers", "On a Sunday", "That same night",
)  # fmt: skip
_THINGS = (
    "a ledger with water stains", "a lantern", "half a boat", "a letter that nobody had opened",
    "a coil of wet rope", "the key to the sluice", "a map drawn on a napkin", "an empty chair",
    "a crate of apples", "a bell without a clapper",
)  # fmt: skip
_SENTENCES = (
    "{time} {water} stood a hand's breadth higher than anybody at {place} could remember.",
    "{time} {person} came down to {place} and looked at {water} for so long that the tea went cold.",
    "Nobody at {place} would have noticed, had {person} not left {thing} on the wall.",
    "It is said that {water} takes its colour from whatever was last spoken aloud at {place}.",
    "From there one could hear {water}, and behind it, fainter, the voices at {place}.",
    "\u201cYou cannot push {water},\u201d said {person}, \u201cbut you can give it somewhere to go.\u201d",
    "There was {thing} in the shallows, turning slowly, as if it were still making up its mind.",
    "{time} the level was read twice, and both times {person} wrote down the same number.",
    "What {water} had carried off from {place} in one night it brought back in eleven years.",
    "They agreed to meet at {place}, and each of them arrived by a different path.",
    "The account that {person} gave of it was short, exact, and left out only the important part.",
    "Below {place} the current divides, and whoever is not paying attention learns something.",
    "{time} somebody hung {thing} from the railing, and it was still there when the swallows left.",
    "For a moment {water} and the road ran side by side, like two people who have just met.",
    "\u201cWrite it down as it comes,\u201d {person} advised, \u201cand put it in order when it has stopped.\u201d",
    "All that autumn {person} measured {water} with a stick, a watch and a great deal of patience.",
    "The quarrel about {thing} was settled at {place}, mostly because it had begun to rain.",
    "A heron stood in {water} and appeared to be counting.",
    "Where the bank had slipped one could read the years, one thin line of sand above the other.",
    "{time} {person} opened the sluice by one notch, and three villages slept better for it.",
)  # fmt: skip
_TITLES = (
    "High water", "A visitor", "What was found", "The reading", "Downstream", "A change of wind",
    "The third arch", "Silt", "Two letters", "Slack tide", "The crossing", "News from above",
)  # fmt: skip


class _Teller:
    """Tells sentence after sentence: without a seed in its head it would tell another book each time."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 (a story, not a secret)

    def sentence(self) -> str:
        pick = self._chance.choice
        text = pick(_SENTENCES).format(
            time=pick(_TIMES),
            place=pick(_PLACES),
            person=pick(_PEOPLE),
            water=pick(_WATERS),
            thing=pick(_THINGS),
        )
        return text[0].upper() + text[1:]

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self._chance.randint(4, 7)))

    def chapter(self, number: int) -> str:
        parts = [f"## {number}. {_TITLES[number % len(_TITLES)]}"]
        parts += [self.paragraph() for _ in range(3)]
        if number % 4 == 0:
            parts.append("\n".join(f"- {self.sentence()}" for _ in range(4)))
        if number % 7 == 0:
            parts.append("> " + self.sentence())
        return "\n\n".join(parts)


def book(words: int = 20_000) -> Iterator[str]:
    """A book in chapters, at least ``words`` long and always the same."""
    teller = _Teller(seed=words)
    told = 0
    yield "# The book of the Elder\n\n"
    number = 0
    while told < words:
        number += 1
        chapter = teller.chapter(number)
        told += len(chapter.split())
        yield chapter + "\n\n"
    yield "*Here the book ends; the river does not.*\n"
