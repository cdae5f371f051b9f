"""Look-up drill: one shown bank, many facts and questions about it, packed into one sequence.

To find a memory again and to see that two values are the same is what a small model learns last. Played episodes
teach it slowly: each prompt costs sixty tokens and asks one thing. A pack computes its memories once and asks a dozen
things; the mask lets each see the memories and itself alone, so every row is exactly the runtime's prompt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import torch
from transformers import PreTrainedTokenizerFast

from memkit.models import MemoryRecord
from memkit.roles import Answerer, Fact, Manager, Prompt, Shown
from memkit_train.tiny.tokenizer import END
from memkit_train.worlds import language, lexicon, templates
from memkit_train.worlds.language import MANY, MAX_VALUES, PREDICATES, Meaning, Phrasebook
from memkit_train.worlds.lexicon import Lexicon, NoWordLeft
from memkit_train.worlds.policies import answer, manage

_LIFE = ("city", "job", "food", "pets", "hobbies", "plan")
_FIRST = datetime(2024, 1, 8, 9, tzinfo=UTC)

_DATED = ("city", "job", "food")


@dataclass(frozen=True, slots=True)
class Pack:
    prefix: list[int]
    rows: list[tuple[list[int], list[int]]]
    """(rest of the prompt, reply) each."""


def packs(tokenizer: PreTrainedTokenizerFast, rng: random.Random, *, lines: int, rows: int = 12) -> Iterator[Pack]:
    """Drills for ever, manager and answerer in turn, on banks of up to `lines` memories."""
    drill = _Drill(rng)
    manager, answerer = Manager(), Answerer()
    while True:
        records = drill.bank(lines)
        shown = [Shown(n, record) for n, record in enumerate(records, start=1)]
        facts = [drill.fact(records) for _ in range(rows)]
        now = records[-1].at + timedelta(days=rng.randint(0, 20)) if records and records[-1].at else _FIRST
        asked = [
            (manager.render(Fact(text, ("t",), speaker, now), shown), "\n".join(manage(text, _texts(shown))))
            for text, speaker in facts
        ]
        yield _pack(asked, tokenizer)
        more = [Shown(n, record) for n, record in enumerate(drill.bank(lines + 3), start=1)]
        yield _pack([_answered(answerer.render(drill.question(more), more, now)) for _ in range(rows)], tokenizer)


def _texts(shown: Sequence[Shown]) -> list[tuple[int, str]]:
    return [(one.handle, one.record.text) for one in shown]


def _answered(prompt: Prompt) -> tuple[Prompt, str]:
    dated = sorted(prompt.view.shown, key=lambda one: (one.record.at or _FIRST, one.record.seq))
    lines = [(one.handle, [said] if (said := language.read(one.record.text)) else []) for one in dated]
    text, used = answer(prompt.view.question, lines)
    return prompt, f"USE {' '.join(map(str, sorted(used))) or 'NONE'}\nANSWER {text}"


def _pack(asked: Sequence[tuple[Prompt, str]], tokenizer: PreTrainedTokenizerFast) -> Pack:
    texts = tokenizer.apply_chat_template(
        [[{"role": m.role, "content": m.content} for m in prompt.messages] for prompt, _ in asked],
        add_generation_prompt=True, tokenize=False,
    )  # fmt: skip
    prompts = tokenizer(texts, add_special_tokens=False)["input_ids"]
    replies = tokenizer([reply + END for _, reply in asked], add_special_tokens=False)["input_ids"]
    shared = min(map(len, prompts)) - 1
    for other in prompts[1:]:
        shared = next((n for n in range(shared) if other[n] != prompts[0][n]), shared)
    return Pack(prompts[0][:shared], [(p[shared:], r) for p, r in zip(prompts, replies, strict=True)])


class _Drill:
    """Banks with near misses, and facts and questions about them. Values keep to the training side of the split."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words = Lexicon(open_names=False, split="train")
        self.book = Phrasebook(unseen=False)
        self.people: list[str] = []
        self.taken: list[str] = []

    def bank(self, most: int) -> list[MemoryRecord]:
        rng = self.rng
        self.people, self.taken = self.words.people(rng, rng.choice((1, 2, 2, 3))), []
        keys = [(subject, attribute) for subject in self.people for attribute in _LIFE]
        if len(self.people) > 1 and rng.random() < 0.3:
            keys.append((self.people[0], "sister"))
        rng.shuffle(keys)
        texts: list[str] = []
        for subject, attribute in keys[: rng.randint(0 if rng.random() < 0.1 else 1, most)]:
            if rng.random() < 0.06:
                texts.append(self._soft())
                continue
            texts.append(self._state(subject, attribute))
            if rng.random() < 0.06 and len(texts) < most:  # a leftover that should have been updated
                texts.append(self._state(subject, attribute))
        at, records = _FIRST + timedelta(days=rng.randrange(400)), list[MemoryRecord]()
        for seq, text in enumerate(texts[:most]):
            at += timedelta(days=rng.randrange(20))
            own = text.split(" ", 1)[0]
            speaker = own if rng.random() < 0.7 else rng.choice(self.people)
            records.append(MemoryRecord(f"m{seq}", text, at=at, speaker=speaker, seq=seq))
        return records

    def _value(self, subject: str, attribute: str, avoid: Sequence[str] = ()) -> str:
        if attribute == "sister":
            return self.rng.choice([name for name in self.people if name != subject])
        try:
            value = self.words.value(
                self.rng, attribute, subject, [*avoid, *(self.taken if attribute == "pets" else ())]
            )
        except NoWordLeft:
            value = self.words.value(self.rng, attribute, subject)
        self.taken.append(value)
        return value

    def _state(self, subject: str, attribute: str) -> str:
        values: list[str] = []
        for _ in range(self.rng.randint(1, MAX_VALUES) if attribute in MANY else 1):
            values.append(self._value(subject, attribute, values))
        return language.state(subject, attribute, values)

    def _soft(self) -> str:
        subject, attribute = self.rng.choice(self.people), self.rng.choice(_LIFE[:5])
        return language.utter(self.book.soft(self.rng, attribute)[1], subject, "", self._value(subject, attribute))

    def fact(self, records: Sequence[MemoryRecord]) -> tuple[str, str]:
        """(fact, speaker): half of the time about a shown key, and then often with a shown value."""
        rng = self.rng
        if rng.random() < 0.06:
            text = self._soft()
            return text, self._speaker(text)
        known = [meaning for record in records if (meaning := language.read(record.text)) is not None]
        if known and rng.random() < 0.68:
            about = rng.choice(known)
            subject, attribute = about.key
            values = about.values
        else:
            subject, attribute = rng.choice(self.people), rng.choice(_LIFE)
            values = ()
        draw = rng.random()
        value = rng.choice(values) if values and draw < 0.55 else self._value(subject, attribute, values)
        mode = rng.choices(("plain", "gone", "also", "planned"), (5, 4, 2, 1))[0]
        if attribute not in MANY and mode == "also":
            mode = "plain"
        if mode == "planned" and attribute not in ("city", "job"):
            mode = "plain"
        if mode == "planned" and (plan := next((one for one in known if one.key == (subject, "plan")), None)):
            moved = plan.values[0].startswith("move to ")
            attribute, value = (
                ("city" if moved else "job"),
                plan.values[0].removeprefix("move to ").removeprefix("work as a "),
            )
        text = language.write(Meaning(subject, attribute, (value,), mode))  # type: ignore[arg-type]
        return text, self._speaker(text)

    def _speaker(self, text: str) -> str:
        return text.split(" ", 1)[0] if self.rng.random() < 0.7 else self.rng.choice(self.people)

    def question(self, shown: Sequence[Shown]) -> str:
        rng = self.rng
        known = [meaning for one in shown if (meaning := language.read(one.record.text)) is not None]
        pets = [value for meaning in known if meaning.attribute == "pets" for value in meaning.values]
        kind = rng.choices(("key", "count", "asof", "owner", "hop"), (6, 1.5, 1, 1.5, 2 if pets else 0.2))[0]
        about = rng.choice(known).key if known and rng.random() < 0.75 else (rng.choice(self.people), rng.choice(_LIFE))
        subject, attribute = about
        value = rng.choice(pets) if pets and rng.random() < 0.9 else self._value(subject, "pets")
        form = {
            "key": attribute,
            "count": f"count:{rng.choice(('pets', 'hobbies'))}",
            "asof": "asof:" + (attribute if attribute in _DATED else rng.choice(_DATED)),
            "owner": "owner",
            "hop": f"hop:{rng.choice(('city', 'job', 'food'))}",
        }[kind]
        day = language.day_name((_FIRST + timedelta(days=rng.randrange(500))).date())
        text = rng.choice(templates.QUESTIONS[form])
        return text.replace("{s}", subject).replace("{v}", value).replace("{d}", day)


def collate_packs(found: Sequence[Pack]) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Model inputs, and rows, columns, targets of the reply tokens. A row of a pack sees its prefix and itself; its
    positions go on from the prefix, as if it stood alone."""
    width = max(len(one.prefix) + sum(len(p) + len(r) - 1 for p, r in one.rows) for one in found)
    ids = torch.zeros((len(found), width), dtype=torch.long)
    positions = torch.zeros((len(found), width), dtype=torch.long)
    segment = torch.full((len(found), width), -1, dtype=torch.long)
    rows: list[int] = []
    columns: list[int] = []
    targets: list[int] = []
    for index, one in enumerate(found):
        shared = len(one.prefix)
        ids[index, :shared] = torch.tensor(one.prefix, dtype=torch.long)
        positions[index, :shared] = torch.arange(shared)
        segment[index, :shared] = 0
        at = shared
        for number, (prompt, reply) in enumerate(one.rows, start=1):
            joined = (prompt + reply)[:-1]
            end = at + len(joined)
            ids[index, at:end] = torch.tensor(joined)
            positions[index, at:end] = torch.arange(shared, shared + len(joined))
            segment[index, at:end] = number
            rows += [index] * len(reply)
            columns += range(at + len(prompt) - 1, end)
            targets += reply
            at = end
    seen = (segment[:, :, None] == segment[:, None, :]) | (segment[:, None, :] == 0)
    seen &= torch.ones((width, width), dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    inputs = {"input_ids": ids, "position_ids": positions, "attention_mask": mask[:, None]}
    return inputs, torch.tensor(rows), torch.tensor(columns), torch.tensor(targets)


class Labels:
    """For the probe: which memory holds what a token says. 0: none of those shown.

    Lines: every name, predicate and value tells the number of its own line. Facts and questions: a value tells the line
    that holds it, a predicate the line that says this of the same person."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        texts = {token: tokenizer.convert_tokens_to_string([piece]) for piece, token in tokenizer.get_vocab().items()}
        plain = {token: text.strip() for token, text in texts.items()}
        self.names = {token: text for token, text in plain.items() if text in lexicon.PEOPLE}
        self.predicates = {token: text for token, text in plain.items() if text in PREDICATES.values()}
        values = {*lexicon.CITIES, *lexicon.JOBS, *lexicon.FOODS, *lexicon.HOBBIES, *lexicon.PET_NAMES}
        self.values = {token for token, text in plain.items() if text in values}
        self.digits = {token: int(text) for token, text in texts.items() if text in set("123456789")}
        self.breaks = {token for token, text in texts.items() if text.endswith("\n")}

    def of(self, found: Sequence[Pack]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        out: list[tuple[int, int, int]] = []
        for index, pack in enumerate(found):
            keys, values = self._lines(index, pack.prefix, out)
            at = len(pack.prefix)
            for prompt, reply in pack.rows:
                name = ""
                for column, token in enumerate(prompt, start=at):
                    if token in self.names:
                        name = self.names[token]
                    elif token in self.predicates and name:
                        out.append((index, column, keys.get((name, self.predicates[token]), 0)))
                    elif token in self.values:
                        out.append((index, column, values.get(token, 0)))
                at += len(prompt) + len(reply) - 1
        table = torch.tensor(out or [(0, 0, 0)], dtype=torch.long)
        return table[:, 0], table[:, 1], table[:, 2]

    def _lines(
        self, index: int, prefix: Sequence[int], out: list[tuple[int, int, int]]
    ) -> tuple[dict[tuple[str, str], int], dict[int, int]]:
        keys: dict[tuple[str, str], int] = {}
        values: dict[int, int] = {}
        line, name = 0, ""
        for column, token in enumerate(prefix):
            if token in self.digits and prefix[column - 1] in self.breaks:
                line, name = self.digits[token], ""
            elif not line:
                continue
            elif token in self.names:
                name = self.names[token]
            elif token in self.predicates:
                keys.setdefault((name, self.predicates[token]), line)
                out.append((index, column, line))
            elif token in self.values:
                values.setdefault(token, line)
                out.append((index, column, line))
        return keys, values
