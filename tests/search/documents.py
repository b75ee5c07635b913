"""Two hundred documents in six languages, made from words that also stand in the queries."""

from __future__ import annotations

import random

WORDS = {
    "en": [
        "willow",
        "river",
        "autumn",
        "don't",
        "Spring",
        "re-use",
        "café",
        "3.14",
        "naïve",
        "snake_case",
        "THE",
        "end",
    ],
    "de": [
        "Weide",
        "Straße",
        "Übung",
        "größer",
        "schön",
        "Fluß",
        "Äpfel",
        "im",
        "Herbst",
        "Donaudampfschiff",
    ],
    "fr": [
        "saule",
        "été",
        "Noël",
        "cœur",
        "l’automne",
        "déjà-vu",
        "où",
        "garçon",
        "fleuve",
        "printemps",
    ],
    "ru": ["ива", "Река", "осень", "ёлка", "йод", "объезд", "весна", "съезд", "Москва"],
    "ja": [
        "東京都",
        "柳",
        "秋の川",
        "カタカナ",
        "ひらがな",
        "データベース",
        "検索する",
        "東京",
        "京都",
    ],
    "ar": ["صفصاف", "نهر", "الخريف", "رَبيع", "كِتَاب", "مكتبة"],
}
QUERIES = [
    *(
        "willow",
        "WILLOW",
        "will",
        '"will"',
        '"the end"',
        "end the",
        "-willow river",
        "cafe",
        "café",
    ),
    *("don't", "snake_case", "3.14", "reuse", "re-use", "strasse", "Straße", "ubung", "fluss"),
    *("apfel", "grosser", "donau", '"donau"', "ete", "noel", "l'automne", "garcon", "deja"),
    *("ива", "РЕКА", "елка", "ёлка", "йод", "осе", '"осень весна"', "東京", "東京都", "京都", "都"),
    *("川", "カタカナ", "データ", "ベース", "検索", '"秋の川"', "نهر", "ربيع", "الخر", "كتاب"),
    *("willow 東京", "willow -river", "river willow autumn", "nothingtobefound", '"willow', "-"),
]


def documents() -> list[str]:
    chance = random.Random(20_261_126)
    made = []
    for number in range(200):
        words = list(WORDS.values())[number % len(WORDS)]
        mixed = [*words, *chance.choice(list(WORDS.values()))[:2]]
        made.append(" ".join(chance.choices(mixed, k=chance.randint(1, 12))))
    return made
