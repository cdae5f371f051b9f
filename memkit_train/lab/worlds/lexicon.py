"""Names and values. Closed: fixed lists, where *combinations* are held out. Open: syllable words and two lists of real
ones, where the words themselves are held out."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Literal

Split = Literal["train", "heldout"]

PEOPLE = (
    "Ana", "Ben", "Carla", "David", "Elena", "Felix", "Grace", "Hugo", "Iris", "Jonas", "Kira", "Leo", "Maya", "Nils",
    "Olga", "Paul", "Rosa", "Sam", "Tara", "Victor", "Wanda", "Yusuf", "Zoe", "Amir",
)  # fmt: skip
CITIES = (
    "Oslo",
    "Rome",
    "Paris",
    "Lima",
    "Cairo",
    "Berlin",
    "Madrid",
    "Lisbon",
    "Dublin",
    "Tokyo",
    "Vienna",
    "Prague",
    "Athens",
    "Boston",
    "Sydney",
    "Seoul",
)
JOBS = (
    "baker",
    "nurse",
    "teacher",
    "pilot",
    "lawyer",
    "carpenter",
    "dentist",
    "farmer",
    "plumber",
    "chemist",
    "barber",
    "waiter",
    "writer",
    "judge",
    "tailor",
    "gardener",
)
FOODS = (
    "sushi",
    "pizza",
    "pasta",
    "curry",
    "tacos",
    "salad",
    "soup",
    "ramen",
    "falafel",
    "risotto",
    "paella",
    "waffles",
    "noodles",
    "burgers",
    "dumplings",
    "stew",
)
ANIMALS = ("dog", "cat", "parrot", "rabbit", "turtle", "pony")
PET_NAMES = (
    "Rex",
    "Milo",
    "Luna",
    "Bella",
    "Rocky",
    "Coco",
    "Daisy",
    "Max",
    "Ruby",
    "Oscar",
    "Pepper",
    "Simba",
    "Toby",
    "Willow",
    "Ziggy",
    "Biscuit",
)
HOBBIES = (
    "chess",
    "tennis",
    "yoga",
    "painting",
    "sailing",
    "climbing",
    "pottery",
    "dancing",
    "fishing",
    "knitting",
    "running",
    "karate",
    "skiing",
    "singing",
    "rowing",
    "cycling",
)

_REAL: dict[str, tuple[str, ...]] = {
    "city": (
        "Ljubljana", "Tallinn", "Bergen", "Porto", "Valencia", "Kyoto", "Quito", "Nairobi", "Krakow", "Seville",
        "Hanoi", "Perth", "Tbilisi", "Bologna",
    ),
    "job": (
        "cartographer", "translator", "surgeon", "florist", "welder", "librarian", "geologist", "detective",
        "beekeeper", "violinist", "mechanic", "psychologist",
    ),
    "food": (
        "goulash", "lasagna", "kimchi", "couscous", "pancakes", "moussaka", "hummus", "gnocchi", "pierogi", "tempura",
        "chowder", "ratatouille",
    ),
    "hobbies": (
        "archery", "fencing", "birdwatching", "surfing", "gardening", "juggling", "origami", "kayaking", "photography",
        "embroidery", "snorkelling", "calligraphy",
    ),
}  # fmt: skip

HELD_OUT = 4
"""Closed level: one in so many (person, attribute, value) is said on the held-out side only. With one in two, what a
person cannot have is worth learning, and a model that learned it fails on the very combinations that were held out."""
_CLOSED = {"city": CITIES, "job": JOBS, "food": FOODS, "hobbies": HOBBIES}
_ONSETS = ("b", "br", "c", "d", "dr", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "io")
_CODAS = ("", "", "l", "n", "r", "s", "m", "k", "nd", "x")


def held_out(*parts: str, share: int = 5) -> bool:
    """Whether a word or a combination belongs to the held-out side: one in `share`, by hash, for ever."""
    return int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:4], "big") % share == 0


def word(rng: random.Random, *, capital: bool, split: Split) -> str:
    """A made-up word of one to three syllables on the wanted side of the split."""
    while True:
        made = "".join(
            rng.choice(_ONSETS) + rng.choice(_VOWELS) + (rng.choice(_CODAS) if rng.random() < 0.6 else "")
            for _ in range(rng.choice((1, 2, 2, 3)))
        )
        if len(made) >= 3 and held_out("word", made) == (split == "heldout"):
            return made.capitalize() if capital else made


class NoWordLeft(LookupError):
    """Every word of this side is taken; the story picks another move."""


class Lexicon:
    """Draws names and values for one side of the split."""

    def __init__(self, *, open_names: bool, split: Split) -> None:
        self.open_names = open_names
        self.split: Split = split

    def people(self, rng: random.Random, count: int) -> list[str]:
        if not self.open_names:
            return rng.sample(PEOPLE, count)
        return _distinct(lambda: word(rng, capital=True, split=self.split), count)

    def value(self, rng: random.Random, attribute: str, subject: str, avoid: Sequence[str] = ()) -> str:
        """A value that `subject` may have on this side of the split, other than `avoid`."""
        for _ in range(200):
            drawn = self._draw(rng, attribute)
            if drawn not in avoid and self._allowed(attribute, subject, drawn):
                return drawn
        raise NoWordLeft(f"no {attribute} left for {subject}")

    def _draw(self, rng: random.Random, attribute: str) -> str:
        if attribute == "pets":
            name = word(rng, capital=True, split=self.split) if self.open_names else rng.choice(PET_NAMES)
            return f"a {rng.choice(ANIMALS)} named {name}"
        if attribute == "plan":
            if rng.random() < 0.5:
                return f"move to {self._draw(rng, 'city')}"
            return f"work as a {self._draw(rng, 'job')}"
        if not self.open_names:
            return rng.choice(_CLOSED[attribute])
        if rng.random() < 0.5:
            side = [real for real in _REAL[attribute] if held_out("word", real, share=3) == (self.split == "heldout")]
            return rng.choice(side)
        return word(rng, capital=attribute == "city", split=self.split)

    def _allowed(self, attribute: str, subject: str, value: str) -> bool:
        if self.open_names:
            return True
        return held_out(subject, attribute, value, share=HELD_OUT) == (self.split == "heldout")


def _distinct(draw: Callable[[], str], count: int) -> list[str]:
    out: list[str] = []
    while len(out) < count:
        candidate = draw()
        if candidate not in out:
            out.append(candidate)
    return out
