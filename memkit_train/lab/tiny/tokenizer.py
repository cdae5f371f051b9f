"""A tokenizer from scratch for the closed world: one token per word, bytes for the rest.

Small models pay for every token. So the runtime's own prompts are used as they are, but their fixed texts (the system
prompt of each role, the constant lines of the user messages) are single tokens, and so is each known word and each
fixed phrase of the world. Any other text still encodes, byte by byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from memkit_train.lab.worlds import lexicon, templates
from memkit_train.lab.worlds.language import PREDICATES

PAD, END = "<|pad|>", "<|end|>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
FRAMES = (
    "NEW turns:\n",
    "EARLIER turns:\n",
    "\nNEW turns:\n",
    "Memories:\n",
    "Memories: none like it yet.\n",
    "\nNEW fact",
    "Memories from",
    "Memories: none.\n",
    "\nQuestion (asked on",
    "\nQuestion: ",
)
"""What stands between the variable parts of the roles' user messages."""
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_PHRASES = "|".join(re.escape(text) for text in sorted(PREDICATES.values(), key=len, reverse=True) if " " in text)
KEY = re.compile(
    rf"({'|'.join(lexicon.PEOPLE)})( also| no longer)? ({'|'.join(map(re.escape, PREDICATES.values()))})(?!\w)"
)
"""Whom a fact is about, and what it says of them: one word, because a manager compares just this."""
ASKED: Mapping[str, tuple[str, str]] = {
    template.split(" on {d}")[0].rstrip("?"): (form.rpartition(":")[0], form.rpartition(":")[2])
    for form, texts in templates.QUESTIONS.items()
    for template in texts
    if "{s}" in template
}
"""What is asked of whom: one word too. Template → (kind, attribute)."""
_ASKED = "|".join(
    re.escape(template).replace(r"\{s\}", f"(?:{'|'.join(lexicon.PEOPLE)})")
    for template in sorted(ASKED, key=len, reverse=True)
)
_PIECES = (
    rf"(?:{_ASKED})\b|"
    rf" ?{KEY.pattern.replace('(', '(?:').replace('(?:?', '(?')}"
    rf"| (?:no longer|{_PHRASES}|as planned)\b"  # what is said of somebody is one word
    rf"| a (?:{'|'.join(lexicon.ANIMALS)}) named| move to| work as a"  # and so is what comes before a name
    r"| \[\w+| \d{4}\] ?\"?"  # the ends of a bracketed date, with the quote that follows
    r"|[.!?]\"\n?|\)?:? \"|\"\n?|:\n"
    r"| ?[A-Za-z]+(?:'[a-z]+)?| ?\d+| ?[^\sA-Za-z\d]+|\n|\s"
)


def parse_asking(text: str) -> tuple[str, str, str] | None:
    """(kind, person, predicate) of a word that asks; None for any other."""
    for template, (kind, attribute) in ASKED.items():
        before, after = template.split("{s}")
        name = text.removeprefix(before).removesuffix(after)
        if name in lexicon.PEOPLE and text == f"{before}{name}{after}":
            return kind, name, PREDICATES[attribute]
    return None


_WORD = r" ?[A-Za-z]+(?:'[a-z]+)?"
_SYLLABLE = r" ?[b-df-hj-np-tv-zB-DF-HJ-NP-TV-Z]*[aeiouAEIOU]+| ?[b-df-hj-np-tv-zB-DF-HJ-NP-TV-Z]+|'[a-z]+"


def words(text: str) -> list[str]:
    return re.findall(_WORD.removeprefix(" ?"), text)


def build_tokenizer(
    texts: Iterable[str], fixed: Sequence[str], *, least: int = 2, known: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """A tokenizer whose words are the pieces that occur at least `least` times in `texts`; every string of `fixed` is
    one word. None of them is an added token: those are control tokens, which a runtime takes out of what users say.
    With `known`, only these are words, and all others are cut into syllables."""
    longest_first = sorted(set(fixed), key=len, reverse=True)
    pieces = _PIECES
    if known:
        listed = "|".join(map(re.escape, sorted(set(known), key=len, reverse=True)))
        pieces = pieces.replace(_WORD, rf" ?(?:{listed})(?![A-Za-z'])|{_SYLLABLE}")
    pattern = "|".join([*(re.escape(text) for text in longest_first), pieces])
    counts = Counter(piece for text in texts for piece in re.findall(pattern, text))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    common = [piece for piece, count in sorted(counts.items()) if count >= least]
    for piece in [*longest_first, *common]:
        ((symbols, _),) = byte_level.pre_tokenize_str(piece)
        vocabulary.setdefault(symbols, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (PAD, END, SYSTEM, USER, ASSISTANT)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
