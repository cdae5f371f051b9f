"""Where a text gives away a secret: keys, by their well-known forms or by what is said before a random text; passwords,
only where they are said to be some."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator

from memkit.text.words import UNSPACED

Span = tuple[int, int]

BLANK = " \t\u00a0\u2009\u202f"
LINKS = "is|are|was|to|ist|lautet|war|auf|es|est|è|é|är|jest|это|هي|היא"
_WEAK_LINKS = frozenset({"to", "auf", "was", "war"})
"""After these, a plain word is seldom a secret: "I gave the password to Anna"."""
_OF = "for|to|of|on|at|from|in|für|vom|von|zum|zur|beim|des|der|del|de|du|della|do|da|para|pour|voor|van|для|от|til|för"
_SIGN = re.compile(rf"""["'`]?[{BLANK}]{{0,3}}(?::=|=>|->|[:=：＝→]|[–—-](?=[{BLANK}]))""")
_VERB = re.compile(
    rf"[{BLANK}]{{0,3}}(?:(?<=[{BLANK}])(?:{LINKS})(?=\W)|['’]s(?=\W)|[은는이]|[はが]|是|为|為)(?:[{BLANK}]{{0,2}}[:=：])?",
    re.I,
)
_QUALIFIED = re.compile(
    rf"[{BLANK}](?:{_OF})(?:[{BLANK}][^\W_]{{1,15}}){{1,4}}?(?=[{BLANK}]{{0,2}}[:=]|[{BLANK}](?:{LINKS})\W)", re.I
)
_MARK = re.compile(r"\[(?:card|key|password|mail|phone)\]")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "「": "」", "‘": "’"}
_LONGEST = 200
"""Letters of a secret that are judged; one that goes on, goes on to the next blank."""
_VALUE = re.compile(r"\S++")
_ASIAN = re.compile(rf"[{UNSPACED}\u3000-\u303f\uff00-\uffef]")


def _said(text: str, words: re.Pattern[str], judge: Callable[[str, str, str], bool]) -> Iterator[Span]:
    """Where one of `words` is followed by a value, as in `password: x`, `password is x`, `password for the wifi is x`.
    `judge` gets the value, the link before it ("" for none, ":" for any sign), and what comes after it."""
    done = 0
    for word in words.finditer(text):
        if word.start() < done:
            continue
        for place, link in _links(text, word.end()):
            found = _value(text, place)
            if found is None:
                continue
            start, end = found
            if _MARK.match(text, start) or not judge(text[start:end], link, text[end : end + 24]):
                continue
            done = end
            yield start, end
            break


def _links(text: str, place: int) -> Iterator[tuple[int, str]]:
    """Places where a value may begin, with what links it to the word that ends at `place`."""
    for after in (place, match.end() if (match := _QUALIFIED.match(text, place)) else None):
        if after is None:
            continue
        if sign := _SIGN.match(text, after):
            yield sign.end(), ":"
        elif verb := _VERB.match(text, after):
            said = verb.group().strip().lower()
            yield verb.end(), ":" if said[-1:] in ":=：" else said
    if text[place : place + 1].isspace():
        yield place, ""


def _value(text: str, place: int) -> Span | None:
    """A quoted text of one line, or what stands up to the next blank without the stops that end a sentence."""
    while place < len(text) and text[place] in " \t\u00a0\u3000":
        place += 1
    if place >= len(text):
        return None
    if (closing := _QUOTES.get(text[place])) is not None:
        end = text.find(closing, place + 1, place + _LONGEST)
        if end > place + 1 and "\n" not in text[place:end]:
            return place + 1, end
        place += 1
    judged = _VALUE.match(text, place, place + _LONGEST)
    if judged is None:
        return None
    end = judged.end()
    if end == place + _LONGEST and (rest := _VALUE.match(text, end)):
        return place, rest.end()
    value = _ASIAN.split(judged.group(), maxsplit=1)[0].rstrip(".,;:!?)]}>\"'`”’»")
    return (place, place + len(value)) if value else None


# -- passwords -------------------------------------------------------------------------------------------------------

_PASSWORD = (
    r"pass(?:word|code|phrase|wd)s?|pwd|passwort|kennwort|contraseñas?|mot[ \u00a0]de[ \u00a0]passe|senha|wachtwoord"
    r"|парол(?:ь|я|ю|е|ем)|hasło|hasłem|lösenord(?:et)?|adgangskode|passord(?:et)?|şifre(?:m|si)?|parola|heslo|jelszó"
    r"|jelszavam|salasana|κωδικός πρόσβασης|mật khẩu|kata sandi|पासवर्ड|كلمة (?:المرور|السر)|הסיסמה|סיסמה"
)
_PASSWORDS = re.compile(rf"(?<![^\W_])(?:{_PASSWORD})(?![^\W_])|密码|密碼|パスワード|비밀번호|รหัสผ่าน", re.I)
_SHORT_NAMES = re.compile(
    r"(?<![^\W_])(?<!this )(?<!that )(?<!the )(?<!each )(?<!first )(?:pw|pass|psk)(?![^\W_])", re.I
)
_PINS = re.compile(r"(?<![^\W_])pin(?:[ -]?(?:code|number|nummer))?(?![^\W_])", re.I)
_CALLED = re.compile(
    rf"(?<!\S)(\S{{4,64}})[{BLANK}](?:is|ist|es|est|è|é)[{BLANK}](?:my|our|the|mein|unser|das|mi|la|mon|le|minha|a)"
    rf"[{BLANK}](?:\w{{1,15}}[{BLANK}])?(?:{_PASSWORD})(?![^\W_])",
    re.I,
)
_IN_URL = re.compile(r"(?<=://)[^\s/:@]{1,64}:([^\s/@]{1,128})@")
_NO_SECRET = frozenset(
    [
        "wrong",
        "right",
        "correct",
        "incorrect",
        "invalid",
        "valid",
        "weak",
        "strong",
        "safe",
        "unsafe",
        "secure",
        "insecure",
        "short",
        "long",
        "required",
        "needed",
        "missing",
        "empty",
        "gone",
        "lost",
        "secret",
        "private",
        "public",
        "okay",
        "fine",
        "good",
        "great",
        "bad",
        "simple",
        "easy",
        "hard",
        "complex",
        "new",
        "different",
        "same",
        "there",
        "here",
        "this",
        "that",
        "these",
        "those",
        "what",
        "which",
        "mine",
        "yours",
        "unknown",
        "sensitive",
        "important",
        "stupid",
        "not",
        "enough",
        "ready",
        "falsch",
        "richtig",
        "sicher",
        "unsicher",
        "schwach",
        "stark",
        "geheim",
        "ungültig",
        "abgelaufen",
        "nötig",
        "einfach",
        "lang",
        "kurz",
        "weg",
        "neu",
        "dasselbe",
        "incorrecta",
        "correcta",
        "débil",
        "segura",
        "insegura",
        "fuerte",
        "nueva",
        "vieja",
        "corta",
        "larga",
        "secreta",
        "inválida",
        "necesaria",
        "obligatoria",
        "incorrect",
        "faux",
        "bon",
        "faible",
        "fort",
        "nouveau",
        "court",
        "requis",
        "obligatoire",
        "sûr",
        "secret",
        "expiré",
        "sbagliata",
        "corretta",
        "debole",
        "sicura",
        "forte",
        "nuova",
        "corta",
        "segreta",
        "scaduta",
        "errata",
        "errada",
        "correta",
        "fraca",
        "forte",
        "segura",
        "nova",
        "curta",
        "secreta",
        "inválida",
        "obrigatória",
    ]
)


def passwords(text: str) -> Iterator[Span]:
    found = [
        *_said(text, _PASSWORDS, _may_be_password),
        *_said(text, _SHORT_NAMES, lambda value, link, after: link == ":" and _like_password(value)),
        *_said(text, _PINS, _may_be_pin),
        *(match.span(1) for match in _CALLED.finditer(text) if _like_password(match.group(1))),
        *(match.span(1) for match in _IN_URL.finditer(text)),
    ]
    yield from sorted(found)


def _may_be_password(value: str, link: str, after: str) -> bool:
    if link == ":":
        return value not in ("[", "{", "(", "null", "None", "true", "false")
    if link == "":
        return _like_password(value) and any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return _like_password(value) or (link not in _WEAK_LINKS and _ends_what_is_said(value, after))


def _may_be_pin(value: str, link: str, after: str) -> bool:
    return value.isdecimal() and 4 <= len(value) <= 8 and link not in _WEAK_LINKS


def _like_password(value: str) -> bool:
    """By its letters: a digit, a sign within, a capital within."""
    inner = value[1:]
    signs = sum(not one.isalnum() and one not in "'’" for one in value.strip("([{<*_"))
    return len(value) >= 4 and (
        any(map(str.isdigit, value))
        or signs > 1
        or (signs == 1 and "-" not in value)
        or (any(map(str.isupper, inner)) and any(map(str.islower, value)))
    )


def _ends_what_is_said(value: str, after: str) -> bool:
    """A plain word as the last of its sentence: `my password is swordfish.`"""
    word = value.lower()
    plain = value.isalpha() and len(value) > 3 and word not in _NO_SECRET and not word.endswith(("ed", "ing"))
    return plain and (not after.strip() or after.lstrip(" \"'”’»)")[:1] in tuple(".,;!?\n"))


# -- keys ------------------------------------------------------------------------------------------------------------

_KNOWN = re.compile(
    r"(?<![\w-])(?:"
    r"(?:sk|rk)[-_](?=[\w-]{0,99}\d)[\w-]{16,}+|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+"
    r"|A(?:KI|SI)A[0-9A-Z]{16}|AIza[\w-]{30,}+|ya29\.[\w-]{20,}+|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{10,}+"
    r"|hf_[A-Za-z0-9]{20,}+|npm_[A-Za-z0-9]{30,}+|pypi-[\w-]{16,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+|gsk_\w{20,}+"
    r"|shp(?:at|ss|ca|pa)_[0-9a-f]{32}|dop_v1_[0-9a-f]{64}|whsec_[\w+/=]{16,}+|AGE-SECRET-KEY-1[0-9A-Z]{20,}+"
    r"|eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{4,}+)",
    re.A,
)
_KEY = re.compile(
    r"(?<![^\W_])(?:(?:api)?keys?|tokens?|secrets?|bearer|credentials?|schlüssel|cl[ée]|clave|chiave|chave|llave|sleutel"
    r"|ключ|токен|секрет)(?![^\W_])|密钥|密鑰|令牌|秘钥|トークン|キー|키|토큰",
    re.I,
)
_KEY_LIKE = re.compile(r"[\w\-./+=~:]{16,}")
_PEM_EDGE = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINES = re.compile(r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)*+")
_BITS = 3.0
"""Entropy per letter from which a text is no word: English has 2.5 to 3 in so few letters, random hex near 3.5."""


def keys(text: str) -> Iterator[Span]:
    found = [
        *_pem_blocks(text),
        *(match.span() for match in _KNOWN.finditer(text)),
        *_said(text, _KEY, lambda value, link, after: _is_random(value)),
    ]
    yield from sorted(found, key=lambda span: (span[0], -span[1]))


def _pem_blocks(text: str) -> Iterator[Span]:
    """From BEGIN to END; where the end was not pasted, as far as lines of letters without blanks go."""
    edges = list(_PEM_EDGE.finditer(text))
    for place, edge in enumerate(edges):
        if edge.group(1) == "BEGIN":
            closing = edges[place + 1] if place + 1 < len(edges) and edges[place + 1].group(1) == "END" else None
            lines = closing or _PEM_LINES.match(text, edge.end())
            yield edge.start(), lines.end() if lines else edge.end()


def _is_random(value: str) -> bool:
    value = value[:_LONGEST]
    if not _KEY_LIKE.fullmatch(value) or "://" in value:
        return False
    mixed = value != value.lower() and value != value.upper()
    if len(re.findall(r"\d+", value)) < (1 if mixed else 2):
        return False
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values()) >= _BITS
