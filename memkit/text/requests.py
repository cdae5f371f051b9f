"""Requests that are about the memory itself, in the languages where their words are unambiguous."""

from __future__ import annotations

import re

_FORGET = re.compile(
    r"""^\W*(?:(?:please|pls|ok|okay|hey|could\ you|can\ you|bitte|kannst\ du|por\ favor|puedes|s'il\ (?:te|vous)\ plaît
    |per\ favore|пожалуйста|请|お願い)\W+)?(?:
      (?:forget|erase|wipe)\b(?!\s+(?:to|it\b))
    | (?:delete|remove)\b.{0,120}?\b(?:memory|memories|what\ you\ know|about\ me)\b
    | don'?t\ remember\b | stop\ remembering\b
    | vergiss\b | vergessen\ sie\b | lösche?\b.{0,120}?\b(?:gedächtnis|erinnerung|speicher)
    | olvida(?:te)?\b | olvide\b | borra\b.{0,120}?\bmemoria
    | oublie[zr]?\b | efface[zr]?\b.{0,120}?\bmémoire
    | esque[cç]e?a?\b | apag(?:a|ue)\b.{0,120}?\bmemória
    | dimentica(?:re|ti)?\b | scordati\b | cancella\b.{0,120}?\bmemoria
    | забудь(?:те)?\b | удали(?:те)?\b.{0,120}?\bпамят
    | zapomnij\b | unut\b | vergeet\b | glöm\b | glem\b | unohda\b | ξέχασε\b | lupakan\b | quên\ đi\b
    | 忘记|忘掉|请忘|忘れて|잊어|भूल\ जा|انس[َى]?\s|שכח(?:י|ו)?\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_LOOKED_AT = 400
"""Letters from the start: a request begins with its verb."""


def asks_to_forget(text: str) -> bool:
    """Whether a message asks that something be forgotten ("forget that I …", "delete … from memory")."""
    return _FORGET.search(text[:_LOOKED_AT]) is not None


_ABOUT = re.compile(
    r"^.{0,60}?\b(?:everything|anything|all|what(?:ever)?|that) (?:that )?(?:I|you)\b[^.,;!?\n]{0,40}? about"
    r" (?P<what>[^.,;!?\n]+)",
    re.IGNORECASE | re.DOTALL,
)


def named_to_forget(text: str) -> str:
    """`Forget what I said about the metformin, it is private` → `the metformin`; "" where no such words name it."""
    found = _ABOUT.match(text[:_LOOKED_AT])
    return found["what"] if found else ""


_ASKS = re.compile(
    r"""^\W*(?:(?:ok(?:ay)?|hey|hi|now|and|so|also|then|thanks|thank\ you)\W+)*(?:
      please | pls | kindly | can\ you | could\ you | would\ you | will\ you | i(?:'d|\ would)\ like\ (?:you\ )?to
    | (?:can|could|may)\ i | help\ me
    | let(?:'s|\ me)
    | check | look | show | tell | find | remind | read | search | list | get | give | open | summari[sz]e | explain
    | fetch | compare | book | order | send | write | translate | describe | confirm | verify | recall | repeat
    | bitte | kannst\ du | k[öo]nn(?:en|ten)\ sie | zeig | such | schau | sag | por\ favor | puedes | dime | busca
    | muestra | mira | s'il\ (?:te|vous)\ pla[îi]t | peux-tu | pouvez-vous | montre | cherche | regarde | per\ favore
    | puoi | mostra | cerca | guarda | dimmi | voc[êe]\ pode | procura | пожалуйста | покажи | найди | проверь
    )\b | ^\W*(?:请|帮我)""",
    re.IGNORECASE | re.VERBOSE,
)


def asks(sentence: str) -> bool:
    """Whether a sentence asks for something, and so tells nothing: a question, or what begins as a request does."""
    return sentence.rstrip().endswith(("?", "？", "؟")) or _ASKS.match(sentence[:_LOOKED_AT]) is not None
