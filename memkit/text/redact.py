"""Ready redactors: card numbers, keys, passwords, mail addresses, phone numbers, each replaced by a mark such as
`[card]`. They judge by form and by what is said right before. A text with nothing of the kind comes back as it is, and
one that was redacted is not changed again.

Everything takes time in proportion to the text: what may fail looks a bounded number of letters ahead, and what may be
long is never read twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import cast

from memkit.errors import InvalidConfig
from memkit.text.secrets import BLANK, LINKS, Span, keys, passwords
from memkit.text.words import UNSPACED

Redact = Callable[[str], str]

_DASH = "\\-\u2010\u2011\u2013"


def redactor(chosen: object) -> Redact | None:
    """`chosen`: None, a function of the caller's own, names of redactors ("cards,keys" is two), or "all"."""
    if chosen is None or callable(chosen):
        return cast("Redact | None", chosen)
    named = chosen.split(",") if isinstance(chosen, str) else chosen
    if not isinstance(named, Collection) or not named or not all(isinstance(one, str) for one in named):
        raise _unknown(f"redact is {type(chosen).__name__}" if chosen else "redact names nothing")
    names = {str(one).strip() for one in named}
    wanted = set(REDACTORS) if names == {"all"} else names
    if unknown := sorted(wanted - REDACTORS.keys()):
        raise _unknown(f"redact={unknown[0]!r} is unknown")
    steps = [(mark, find) for name, (mark, find) in REDACTORS.items() if name in wanted]

    def redact(text: str) -> str:
        for mark, find in steps:
            text = _replaced(text, mark, find(text))
        return text

    return redact


def _unknown(what: str) -> InvalidConfig:
    names = ", ".join(REDACTORS)
    return InvalidConfig(
        what, why=f"there are {names}, or all of them as 'all'", fix="pass such names, or a function str -> str"
    )


def _replaced(text: str, mark: str, spans: Iterator[Span]) -> str:
    """`spans` in order; one that begins within the last is left out."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start >= done:
            parts += [text[done:start], mark]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


# -- cards -----------------------------------------------------------------------------------------------------------

_NUMBERS = re.compile(rf"(?<!\d)(?<!\d[.,])(?:\d{{4}}(?:\.\d{{4}}){{3}}(?![\d.])|\d++(?:[{BLANK}{_DASH}]\d++)*+)")
_ISSUED = re.compile(
    r"4(?:.{15}|.{18})|(?:5[1-5]|2[2-7]|35).{14}|3[47].{13}|3[0689].{12}|(?:6[0245789]|50|5[6-8]|81).{14,17}|9792.{12}"
)
"""By first digits and length: Visa; Mastercard, Mir and JCB; American Express; Diners; the rest."""
_LEAST, _MOST_GROUPS = 13, 7
_BETWEEN = re.compile(r"\D")


def _cards(text: str) -> Iterator[Span]:
    for run in _NUMBERS.finditer(text):
        if run.end() - run.start() < _LEAST:
            continue
        groups = [(one.start() + run.start(), one.end() + run.start()) for one in re.finditer(r"\d+", run.group())]
        for first, (start, _) in enumerate(groups):
            digits = 0
            for begin, end in groups[first : first + _MOST_GROUPS]:
                digits += end - begin
                if digits >= _LEAST and _is_card(text[start:end]):
                    yield start, end
                if digits > 18 or end - begin < 3:
                    break


def _is_card(written: str) -> bool:
    digits = _BETWEEN.sub("", written)
    if not digits.isascii():
        digits = "".join(str(int(one)) for one in digits)
    if _ISSUED.fullmatch(digits) is None or len(set(digits)) == 1 or len(set(_BETWEEN.findall(written))) > 1:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


# -- mail ------------------------------------------------------------------------------------------------------------

_LETTER = rf"[^\W{UNSPACED}]"
_MAIL = re.compile(
    rf"(?<!{_LETTER})(?<![.%+-])(?:{_LETTER}|[.%+-])++@(?:(?:{_LETTER}|-)++\.)+(?:(?!\d|_){_LETTER}){{2,24}}"
)


def _mail(text: str) -> Iterator[Span]:
    return (match.span() for match in _MAIL.finditer(text))


# -- phone -----------------------------------------------------------------------------------------------------------

_GAP = rf"(?:[{BLANK}{_DASH}./]|[{BLANK}]?\(|\)[{BLANK}/-]?|[{BLANK}][/-][{BLANK}])?"
_NUMBER = re.compile(
    rf"(?<![\w+])\(?\+{_GAP}[1-9](?:{_GAP}\d){{7,14}}(?!\d)"  # +49 …
    rf"|(?<![\w.,:/#+-])(?<!\d[{BLANK}])00[ ]?[1-9]\d{{0,2}}(?=[{BLANK}{_DASH}./(])(?:{_GAP}\d){{6,13}}(?!\d)"  # 0049 …
    rf"|(?<![\w.,:/#+-])(?:1[-. ])?(?:\([2-9]\d\d\)[{BLANK}]?[2-9]\d\d[-. ]\d{{4}}"  # (415) 555-0132
    r"|[2-9]\d\d([-.])[2-9]\d\d\1\d{4})(?![\w-])"
)
_ANNOUNCED = re.compile(
    rf"(?<![^\W_])(?:(?:(?:tele|cell|mobile )?phone|cell|mobile|whatsapp|tel|tél|telefon|handy|mobil|teléfono|móvil"
    rf"|celular|téléphone|portable|telefono|cellulare|telefone|telemóvel|telefoon|телефон|my|meine|mi|mon|il mio|meu)"
    rf"(?:[ -]?(?:number|no|nummer|nr|numéro|número|numero|номер))?|(?:telefon|handy|mobil|ruf)nummer"
    rf"|(?:call|text|ring|reach|phone)[ ](?:me|us|him|her|them)(?:[ ](?:at|on))?)"
    rf"\.?(?:[{BLANK}]?[:=]|[{BLANK}](?:{LINKS})(?=[{BLANK}]))?[{BLANK}]{{0,2}}(\(?\d(?:{_GAP}\d){{6,14}})(?!\d|[.,]\d)",
    re.I,
)
_CJK_ANNOUNCED = re.compile(rf"(?:电话|電話|手机|手機|전화|โทร)[^\d\n]{{0,6}}(\d(?:{_GAP}\d){{6,14}})(?!\d)")
_MONEY = "[%$€£¥₹₽₩]|(?:EUR|USD|GBP|CHF|JPY|INR|CNY|RUB|euros?|dollars?|pounds|francs?|yen|kg|km|points?)"
_MONEY_AFTER = re.compile(rf"[.,]\d|[{BLANK}]?(?:{_MONEY})(?![^\W\d_])", re.I)
_NO_PHONE = re.compile(
    r"(?:[$€£¥₹₽₩]|(?<![^\W_])(?:order|invoice|ticket|tracking|case|ref|reference|booking|confirmation|item|sku|part|serial"
    r"|account|isbn|bestellung|bestellnummer|auftrag|rechnung|pedido|factura|commande|facture|ordine|fattura|заказ)"
    r"\W{0,3}(?:no|nr|num|number|nummer|id|code|is|n[°º])?|订单号?|订单编号)\W{0,3}$",
    re.I,
)
_DATE = re.compile(
    r"\d{4}([-./ ])\d{1,2}\1\d{1,2}(?!\d)|\d{1,2}([-./ ])\d{1,2}\2(?:19|20)\d\d(?!\d)|\d{1,2}[.:]\d\d[ –-]"
)


def _phone(text: str) -> Iterator[Span]:
    told = [match.span(1) for words in (_ANNOUNCED, _CJK_ANNOUNCED) for match in words.finditer(text)]
    for start, end in sorted([*told, *(match.span() for match in _NUMBER.finditer(text))]):
        if not (
            _MONEY_AFTER.match(text, end)
            or _DATE.match(text, start)
            or _NO_PHONE.search(text[max(0, start - 30) : start])
        ):
            yield start, end


REDACTORS: dict[str, tuple[str, Callable[[str], Iterator[Span]]]] = {
    "keys": ("[key]", keys),
    "passwords": ("[password]", passwords),
    "cards": ("[card]", _cards),
    "mail": ("[mail]", _mail),
    "phone": ("[phone]", _phone),
}
"""In this order: what one leaves is read by the next."""
