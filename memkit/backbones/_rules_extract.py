"""Turns → facts, without a model: sentences that state something about the speaker, in the third person and dated.

It prefers leaving something out to storing chit-chat, and leaves words as they were said wherever rewriting them
could change what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memkit.backbones._rules_dates import resolve_dates
from memkit.backbones._rules_person import third_person
from memkit.backbones._rules_words import content, phrases, single_line
from memkit.models import Turn

MAX_FACTS_PER_TURN = 8
_MAX_TURN = 20_000
_SENTENCE_END = re.compile(r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)(?<=[.!?…])[\"”')]*\s+")
_CLAUSE_END = re.compile(
    r"(?:[,;:–—] ?| )(?:and|but|so|also|plus|then) (?=(?:I|we|my|our|I['’]\w+|we['’]\w+)\b)|;|[–—]| - "
    r"|, (?=(?:I|we|I['’]\w+|we['’]\w+) )",
)
_SECOND_VERB = re.compile(
    r" and (?=(?:live|work|like|love|hate|enjoy|play|study|have|own|speak|teach|volunteer|am|can't|don't|moved|adopted"
    r"|bought|started|got|quit|sold)\b)"
)


_LEAD = re.compile(
    "^(?:"
    + phrases(
        """hey/hi/hello/oh/wow/yeah/yes/yep/no/nope/well/okay/ok/so/and/but/actually/btw/by the way/anyway/honestly/also
        /plus/thanks/thank you/guess what/fyi/sure/great/cool/nice/awesome/haha/lol/hmm/um/right/absolutely/definitely
        /totally/update/news/good news/bad news/as I said/like I said/to be honest/in fact/unfortunately/sadly/luckily
        /fortunately/finally/exactly/true/then/please/(?:remember|note|know|keep in mind|don['’]t forget)(?: that)?
        /just so you know/for your information"""
    )
    + r"\b(?: (?:there|everyone|all|(?-i:[A-Z][a-z]+)))?[,!:.–— -]*)+",
    re.IGNORECASE,
)
_NAMED_LEAD = re.compile(r"^(?:[A-Z][\w'’]+[,!] )+(?=\w)")
_OPINION = re.compile(r"^I (?:think|believe|should (?:say|mention)|must say)(?: that)? (?=\w)", re.IGNORECASE)
_NO_STATEMENT = re.compile(
    "^"
    + phrases(
        r"""who/whose/what/when/where/why/how/which/do/does/did/is/are/was/were/can/could/would/will/should/shall/have/has
        /may/might/aren['’]t/isn['’]t/don['’]t/doesn['’]t/didn['’]t/won['’]t/can['’]t/any/let['’]s/let us/let me/tell
        /give/show/write/help/explain/make/find/list/suggest/recommend/translate/summari[sz]e/imagine/suppose/pretend/say
        /look/check/remind/see/take care/talk/good (?:morning|night|evening|luck)/happy birthday/congrat\w*/welcome/bye
        /goodbye/cheers"""
    )
    + r"\b",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"\b"
    + phrases(
        r"""if/unless/wish/imagine/suppose/supposedly/hypothetically/pretend/might/maybe/perhaps/could/should/lol/lmao/haha
        /would (?:be|have)/sounds?/looks? like/seems?/i guess/in theory/you/your/yours/you['’]\w+/yourself
        /keep going/hang(?:ing)? in there/make it through/(?:since )?we last (?:spoke|talked)"""
    )
    + r"\b",
    re.IGNORECASE,
)
_JOKE = re.compile(r"\b(?:(?:just|only|was|am|['’]m) (?:kidding|joking)|jk)\b", re.IGNORECASE)
_FEELING = re.compile(
    r"^(?:I|we)(?: (?:really|totally|completely|just|also|so|do|did|will|can|can't|cannot|don't|know))*"
    r"(?:['’](?:m|re|ve been|ll)| am| are| was| feel| felt)?"
    r"(?: (?:so|very|really|pretty|quite|just|also|too|feeling|always|all|doing|being|super|totally|such|gonna))* "
    + phrases(
        """happy/glad/good/fine/great/excited/sorry/sure/okay/ok/here/back/done/ready/curious/grateful/thankful/thrilled
        /proud/lucky/well/better/impressed/amazed/agree/see/guess/hope/mean/know/think/wonder/bet/understand/feel/care
        /appreciate/remember/forgot/forget/believe/swamped/off/in/down/stoked/pumped/wait/relate/suppose/get it
        /(?:love|like) (?:it|that|this)/need (?:help|advice|some|a)/want to (?:know|ask|hear|see)/was wondering
        /have a question"""
    )
    + r"\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"^(?:The )?[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)* (?:(?:also|now|no longer|really|always|just|never) )?"
    + phrases(
        """is/was/has/had/lives/lived/works/worked/likes/loves/hates/prefers/moved/studies/plays/wants/plans/got/bought
        /adopted/owns/started/stopped/quit/left/died/turned/turns/became/married/goes/went/will/can['’]t/doesn['’]t
        /isn['’]t/speaks/joined"""
    )
    + r"\b"
)
_ABOUT_NAMED = re.compile(
    r"^(?:He|She|It)(?=(?: (?:is|was|has|had|likes|loves|hates|lives|works|turned|turns|can|will|died)|['’]s)\b)"
)
_NOT_NAMES = re.compile(
    r"^(?:It|That|This|There|These|Those|They|He|She|You|What|Everything|Something|Nothing|Everyone|Life|Time|One|Some|"
    r"Being|Really|Lots|Still|Next|Last|The best|The whole|\w+ing)\b"
)
_INTRODUCED = re.compile(r"\b(?:named|called|name is|name's)\s+([A-Z][\w'’-]*)")
_SELF_IS = re.compile(r"^I(?:['’]m| am) \w", re.IGNORECASE)

_DATED = re.compile(r"(?:yesterday|today|tomorrow|last|next|this|on|in|since|every|after|before)\b", re.IGNORECASE)


def facts_of(turn: Turn) -> list[str]:
    """Self-contained statements of one turn; nothing from tools, systems and nameless assistants."""
    if turn.role not in ("user", "assistant") or (turn.role == "assistant" and not turn.speaker):
        return []
    name = single_line(turn.speaker, 40) or "User"
    found: list[str] = []
    introduced = ""
    for clause in _clauses(turn.text[:_MAX_TURN]):
        if _JOKE.search(clause):
            if found:
                found.pop()
            continue
        statement = _statement(clause, introduced)
        if statement is None:
            continue
        new = _INTRODUCED.search(statement)
        introduced = new[1] if new else introduced
        fact = single_line(resolve_dates(third_person(statement, name), turn.at), 290)
        if len(content(fact)) < 1 or fact in found:
            continue
        found.append(fact[0].upper() + fact[1:] + ("" if fact.endswith((".", "…")) else "."))
    return found[:MAX_FACTS_PER_TURN]


def _clauses(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(" ".join(line.split())):
            stated = sentence.strip("\"“”'*_#>-• ")
            if stated.endswith("?"):
                continue
            for clause in _divide(stated.rstrip(" .!…")):
                yield from _one_verb_each(clause.strip(" ,:"))


def _divide(sentence: str) -> list[str]:
    parts = [part for part in _CLAUSE_END.split(sentence) if part.strip()]
    return parts if all(len(part.split()) > 1 for part in parts) else [sentence]  # "Me and my wife": one subject


def _one_verb_each(clause: str) -> list[str]:
    """`I live in Oslo and work at Equinor` as two statements."""
    if not clause.startswith("I "):
        return [clause]
    first, *rest = _SECOND_VERB.split(clause)
    return [first, *(f"I {part}" for part in rest)]


def _statement(clause: str, introduced: str) -> str | None:
    """The clause without what leads up to it, if it states something lasting about the speaker or somebody named."""
    clause = _LEAD.sub("", clause, count=1)
    clause = _NAMED_LEAD.sub("", clause, count=1)
    clause = _OPINION.sub("", clause, count=1).strip()
    clause = re.sub(r"^me and (?=my |our )", "I and ", clause, flags=re.IGNORECASE)
    if len(clause.split()) < 3 and not _SELF_IS.match(clause):
        return None
    if introduced and _ABOUT_NAMED.match(clause):
        clause = re.sub(r"^(?:He|She|It)['’]s\b", f"{introduced} is", clause)
        clause = re.sub(r"^(?:He|She|It)\b", introduced, clause)
    if _NO_STATEMENT.match(clause) or _UNREAL.search(clause) or _FEELING.match(clause):
        return None
    if re.match(r"(?:I|we)\b|(?:I|we)['’]|(?:my|our)\b", clause, re.IGNORECASE):
        return clause
    if _STATES.match(clause) and not _NOT_NAMES.match(clause):
        return clause
    dated = _DATED.match(clause)
    return clause if dated and re.search(r"\b(?:I|we)\b", clause) else None
