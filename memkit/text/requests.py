"""Requests that are about the memory itself, in the languages where their words are unambiguous."""

from __future__ import annotations

import re

from memkit.text.passages import sentences
from memkit.text.words import terms

_FORGET = re.compile(
    r"""^\W*(?:(?:[^.;!?\n]{0,60}[,;–—-]\s*)?i\ (?:actually\ )?meant?\W+)?
    (?:(?:please|pls|ok|okay|hey|oh|no|sorry|actually|and|also|now|just|could\ you|can\ you
    |bitte|kannst\ du|por\ favor|puedes|s'il\ (?:te|vous)\ plaît|per\ favore|proszę|lütfen|tolong
    |пожалуйста|будь\ ласка|παρακαλώ|בבקשה|من\ فضلك|कृपया|请|お願い)\W+){0,3}(?:
      (?:forget|erase|wipe)\b(?!\s+(?:to|it\b))
    | (?:delete|remove)\b.{0,120}?\b(?:memory|memories|what\ you\ know|about\ me)\b
    | don'?t\ remember\b | stop\ remembering\b
    | (?:vergiss|vergessen\ sie|vergeet|glöm|glem|oublie[zr]?|olvida(?:te)?|olvide|esque[cç]e?a?|dimentica(?:re|ti)?
      |забудь(?:те)?)\b(?!\s+(?:nicht|nie|niet|inte|ikke|pas|jamais|es|het|eso|esso|ça|cela|это|det)\b)
    | lösche?\b.{0,120}?\b(?:gedächtnis|erinnerung|speicher)
    | borra\b.{0,120}?\bmemoria
    | efface[zr]?\b.{0,120}?\bmémoire
    | apag(?:a|ue)\b.{0,120}?\bmemória
    | scordati\b | cancella\b.{0,120}?\bmemoria
    | удали(?:те)?\b.{0,120}?\bпамят
    | (?:zapomnij|zapomeň(?:te)?|zabudni(?:te)?|uită(?!-)|uitați(?!-)|felejtsd?\ el|kalimutan\ mo)\b | unut\b | unohda\b | ξ[εέ]χ(?:ασ[εέ]|άστε|να)\b | lupakan\b
    | (?:hãy|làm\ ơn|xin)\ quên\b | quên\ đi\b | quên\b(?=.{2,200}\bđi\W*$)
    | (?:忘记|忘掉|请忘)(?!.{0,100}了\W*$)|忘れて|잊어|भूल\ जा|انس[َىِ]?\s|ת?שכח(?:י|ו)?\b
    | (?:ช่วย|กรุณา|โปรด)ลืม | ลืม(?=.{2,200}(?:ไปเลย|ไปซะ|เถอะ|ได้เลย)(?:นะ|ครับ|ค่ะ|คะ)*\W*$)
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_DELETE_MINE = re.compile(
    r"""\b(?:delete|remove|erase|wipe|clear)\ my\b[^.;!?\n]{0,40}?\b(?:pin|code|password|passcode|passphrase|pass\ phrase|address
      |phone(?:\ number)?|number|birthday|birth\ date|date\ of\ birth|card|iban|ssn)\b
      (?![^.;!?\n]*\b(?:from|off|on|in|at)\ (?!(?:your|the)\ mem|mem|file))
    | \b(?:lösche?|lösch\ mal|löschen\ sie|entferne?|entfernen\ sie)\ (?:bitte\ )?mein\w*\b[^.;!?\n]{0,40}?(?:pin|code|passwort|kennwort
      |adresse|nummer|geburtstag|geburtsdatum|iban)\b
    | \b(?:borra|elimina|quita|suprime)\ (?:por\ favor\ )?mis?\b[^.;!?\n]{0,40}?\b(?:pin|código|contraseña|clave|dirección|teléfono|número
      |cumpleaños)\b
    | \b(?:efface|supprime)[zr]?\ (?:s'il\ (?:te|vous)\ plaît\ )?(?:mon|ma|mes)\b[^.;!?\n]{0,40}?\b(?:pin|code|mot\ de\ passe|adresse|numéro
      |téléphone|anniversaire)\b
    | \b(?:cancella|elimina)\ (?:il\ |la\ )?mi[oa]\b[^.;!?\n]{0,40}?\b(?:pin|codice|password|indirizzo|numero|telefono|compleanno)\b
    | \b(?:apag[ae]|apague|exclu[ai]|remov[ae])\ (?:o\ |a\ )?(?:meu|minha)\b[^.;!?\n]{0,40}?\b(?:pin|código|senha|endereço|número|telefone
      |aniversário)\b
    | \b(?:verwijder|wis)\ (?:alsjeblieft\ )?mijn\b[^.;!?\n]{0,40}?(?:pin|code|wachtwoord|adres|nummer|verjaardag)\b
    | \b(?:usuń|skasuj|wymaż)\ (?:proszę\ )?m[oó]j\w*\b[^.;!?\n]{0,40}?\b(?:pin|kod|hasło|adres|numer|telefon|urodziny)\b
    | \b(?:удали|сотри|убери)(?:те)?\ (?:пожалуйста\ )?мо[йюяеи]\w*\b[^.;!?\n]{0,40}?\b(?:пин|код|пароль|адрес|номер|телефон)\b
    | \bmein\w*\b[^.;!?\n]{0,40}?(?:pin|code|passwort|kennwort|adresse|nummer)\ löschen\W*$
    | (?:删除|删掉|刪除|刪掉)我的[^。；！？\n]{0,12}(?:密码|密碼|号码|號碼|地址|生日|电话|電話|卡号|卡號)
    | (?:パスワード|暗証番号|番号|住所|誕生日|コード)を(?:削除|消去|消し)(?:して)?
    | (?:비밀번호|번호|주소|생일|코드)\w?\ ?(?:삭제|지워)
    | (?:şifre|parola|kod|numara|adres)\w*\ sil(?:in|iniz|er\ misin)?\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""One's own, and nothing but data. Whoever wants his account deleted, or a file, does not speak of the memory."""
_LOOKED_AT = 400
"""Letters from the start, and before the end: a request begins with its verb, or ends with it."""
_AT_THE_END = re.compile(
    r"(?:忘れて(?:ください|下さい|くれ|ほしい|欲しい|ね)?|잊어\s?(?:줘|주세요|버려)|भूल जा(?:ओ|इए|एं|एँ)"
    r"|ভুলে যা(?:ও|ন)|فراموش کن(?:ید)?|بھول جا(?:ؤ|ئیں|ئیے)"
    r"|\bunut(?:un|unuz|ur musun)?(?: lütfen)?)[\s。．.!！।~]*$",
    re.IGNORECASE,
)
"""… where the verb comes last."""
_MAY_ASK = re.compile(
    r"forget|erase|wipe|clear|delete|remove|remember|verg[ei]|glöm|glem|oubli|olvid|esque|dimentic|забудь|lösch|entfern"
    r"|borra|elimina|quita|suprim|efface|apag|exclu|remov|scordat|cancella|verwijder|wis|удали|сотри|убери|zapomnij|zapomeň|zabudni|uit[ăa]|felejts|kalimutan|usuń"
    r"|skasuj|wymaż|unut|sil|unohda|ξ[εέ]χ|lupakan|quên|忘|删|刪|削除|消|잊어|삭제|지워|भूल|ভুলে|فراموش|بھول|انس|שכח|ลืม",
    re.IGNORECASE,
)


def asks_to_forget(text: str) -> bool:
    """Whether a message asks that something be forgotten ("forget that I …", "delete … from memory")."""
    return bool(request_in(text))


_NAMES_IT = re.compile(
    r"\W*(?:\w{2,8}\W+)?(?:that|what|everything|dass|was|que|che|dat|wat|att|at|hva|vad|że|що|что|ότι|πως|rằng|việc|kalau"
    r"|bahwa|my|mein\w*|mijn|mis?|mon|ma|mes|meus?|minhas?|mi[oae]|miei|mi(?:n|tt|na|ne)|moj\w*|mój|мо[йяюеёиї]\w*|benim)\b"
    r"|.*事",
    re.IGNORECASE | re.DOTALL,
)
_OF_MEMORY = re.compile(r"memor|know|about me|gedächtnis|erinnerung|speicher|mémoire|памят", re.IGNORECASE)
"""What a request behind other words says of what is to be forgotten: "forget the other options" is said of much."""


def request_in(text: str) -> str:
    """The first sentence that asks that something be forgotten, among those at the start and the end; or ""."""
    for part in (text,) if len(text) <= 2 * _LOOKED_AT else (text[:_LOOKED_AT], text[-_LOOKED_AT:]):
        for sentence in sentences(part) if _MAY_ASK.search(part) else ():
            found = _FORGET.match(sentence)
            if _DELETE_MINE.search(sentence):
                return sentence
            if found and (
                text.lstrip().startswith(sentence)
                or _NAMES_IT.match(sentence, found.end())
                or _OF_MEMORY.search(found[0])
            ):
                return sentence
            if not found and _AT_THE_END.search(sentence):
                return sentence
    return ""


def before_request(text: str) -> str:
    """What was said before a request to forget: all of it where none is made."""
    request = request_in(text)
    return text[: text.index(request)].rstrip() if request else text


_ABOUT = re.compile(
    r"^.{0,60}?\b(?:(?:everything|anything|all|what(?:ever)?|that) (?:that )?(?:I|you)\b[^.,;!?\n]{0,40}? about"
    r"|(?:that|the|this) (?:thing|stuff|bit|story) (?:about|with)"
    r"|(?:das|alles|was)\b[^.,;!?\n]{0,40}? (?:mit|über|von)|(?:wat|alles|dat)\b[^.,;!?\n]{0,40}? (?:over|met|van)"
    r"|(?:lo|todo)\b[^.,;!?\n]{0,40}? (?:de|del|sobre)|(?:o|tudo) (?:que|o)\b[^.,;!?\n]{0,40}? (?:sobre|da|do)"
    r"|ce que\b[^.,;!?\n]{0,40}? (?:sur|de)|(?:quello|tutto)\b[^.,;!?\n]{0,40}? (?:di|del|su|sul|sulla)"
    r"|(?:всё|все|то),? что\b[^.,;!?\n]{0,40}? (?:о|об|про)"
    r") (?P<what>[^.,;!?\n]+)",
    re.IGNORECASE | re.DOTALL,
)
_THE_THING = re.compile(r"\b(?:the|that) (?P<what>[^.,;!?\n]{2,40}?) (?:thing|stuff|story)\W*$", re.IGNORECASE)
_LITTLE = """
    das dass mit über von der die den dem ich mein meine meinen meinem meiner bitte was alles gesagt habe hab
    dat de het ik mijn met wat van que el la los las lo mi mis en por favor me a eu o os as um meu minha em no na
    je j le les des du mon ma mes s'il te plaît ce che il di mio mia per favore att jag min mitt jeg på og bir benim
    что я в мой моя мои моего моей про об у меня пожалуйста मेरा मेरी मेरे के की का को कि बारे में
    że to o mój moja moje mojej moim się na w z proszę tym що мій моя про ότι πως το τη την του της μου για
    أنني أنّني أني أن عن في ما قلته لك שאני את על שלי מה שאמרתי rằng việc chuyện mình tôi em anh là của đi
    kalau bahwa aku saya
"""
LITTLE_WORDS = frozenset(_LITTLE.split())
"""What requests are put with, in the languages that they are recognised in."""


_AROUND_UNSPACED = re.compile(
    r"^(?:我|关于|關於|说过|的|那个|这个|私[はがの]?|僕[はがの]?|俺[はがの]?|내가|제가|나의|내|제|เรื่อง|ที่|ว่า|ฉัน|ผม|[\s、，,])+"
    r"|(?:(?:的)?(?:这|那)?(?:件)?事(?:情|儿)?|吧|了|という(?:こと|話)|(?:の)?こと|って|について|(?:[はをのも])"
    r"|(?:다|라)는|\s|건|것|거|사실|은|는|을|를|ไป|เลย|[、，,。])+$"
)
"""The same of scripts without blanks, at the ends of what a request names."""


_DELETES = re.compile(
    r"\b(?:delete|remove|erase|wipe|clear|lösch\w*|entfern\w*|borra|elimina|quita|suprime|efface[zr]?|supprime[zr]?|cancella|apag\w+"
    r"|exclu\w+|remov\w+|verwijder|wis|usuń|skasuj|wymaż|удали\w*|сотри\w*|убери\w*|sil\w*)\b|删[除掉]|刪[除掉]|を(?:削除|消去|消し)(?:して)?|삭제|지워",
    re.IGNORECASE,
)
_OWN_NOUN = re.compile(
    r"(?:^|\W)(?P<my>my|mein\w*|mijn|mis?|mon|ma|mes|meus?|minhas?|mi[oae]|miei|mi(?:n|tt|na|ne)|moj\w*|mój|мо[йяюеёиї]\w*)"
    r"\s+(?P<noun>\w{3,})(?:\W+(?:please|pls|now|bitte|alsjeblieft|por favor|proszę|пожалуйста))*\W*$",
    re.IGNORECASE,
)
_OWN_ENDING = re.compile(r"\w{4,}(?:ni|[ıiuü]?m[ıiuü])\W*$", re.IGNORECASE)
"""Finnish and Turkish, where what is one's own has an ending."""


def own_noun(text: str) -> str:
    """`forget my birthday` → `my birthday`; "" where a request does not end with one word of one's own."""
    rest = after_request(text)
    if own := find_own(rest):
        return own
    ends = _OWN_ENDING.fullmatch(rest.strip()) if re.search(r"\b(?:unut|unohda)\b", text, re.IGNORECASE) else None
    return rest.strip() if ends else ""


def find_own(text: str) -> str:
    """`meinen Garagencode bitte` → `meinen Garagencode`; "" where words do not end so."""
    found = _OWN_NOUN.search(text)
    return f"{found['my']} {found['noun']}" if found else ""


def after_request(text: str) -> str:
    """What comes after the verb of a request to forget, or before it where it comes last."""
    request = request_in(text)
    if mine := _DELETE_MINE.search(request):
        rest = _DELETES.sub(" ", mine[0])
    elif found := _FORGET.match(request):
        rest = request[found.end() :]
    else:
        found = _AT_THE_END.search(request)
        rest = request[: found.start()] if found else ""
    rest = _AROUND_UNSPACED.sub("", rest)
    return rest if terms(rest) else text


def named_to_forget(text: str) -> str:
    """`Forget what I said about the metformin, it is private` → `the metformin`; "" where no such words name it."""
    request = request_in(text) or text[:_LOOKED_AT]
    found = _ABOUT.match(request) or _THE_THING.search(request)
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
