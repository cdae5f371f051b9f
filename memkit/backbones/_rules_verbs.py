"""The words that the rules are sure of: verbs of which they know every form, states, people and things.

A statement is taken for a fact only if it is made of these; whatever else is said stays in the words of the turn.
"""

from __future__ import annotations

HABITS = frozenset(
    """live reside work like love hate enjoy adore dislike prefer have own drink eat play study speak teach collect read
    write cook bake paint draw sing dance attend practice practise use smoke vape wear keep grow sleep weigh earn make
    pay owe train swim cycle ride climb ski surf dive sail fish knit sew garden meditate code program build design
    manage run lead coach support volunteer drive commute travel hike jog walk exercise suffer raise breed foster rent
    share go pray serve avoid take belong specialise specialize identify listen dream""".split()
)
"""What somebody does again and again, or has."""

EVENTS = frozenset(
    """adopt buy sell move start begin finish graduate marry quit leave join win lose get visit travel go fly drive book
    sign enrol enroll register apply pass fail retire break sprain tear fracture injure run complete publish open
    launch turn become have give meet attend hike climb learn switch change stop celebrate undergo receive grow take
    make write build paint host donate rescue foster rent renovate plant cancel postpone return split crash total order
    pay borrow lend teach study work live play love like hate read watch order own drop try do propose relocate settle
    volunteer eat wreck inherit found bake cook dislike enjoy prefer train serve raise coach smoke owe design lead sleep""".split()
)
"""What happens in a life, and is told in the past or planned."""

PLANS = frozenset(
    """adopt buy sell move start finish graduate marry quit leave join win visit travel go fly drive book enrol enroll
    apply pass retire run complete publish open launch become have attend hike climb learn switch change stop celebrate
    take write build paint host rent renovate return study work live play propose relocate settle volunteer get try
    do lose save""".split()
)

_IRREGULAR_PAST = {
    "have": "had", "eat": "ate", "drink": "drank", "speak": "spoke", "teach": "taught", "read": "read",
    "write": "wrote", "draw": "drew", "sing": "sang", "wear": "wore", "keep": "kept", "grow": "grew", "sleep": "slept",
    "make": "made", "pay": "paid", "swim": "swam", "ride": "rode", "build": "built", "run": "ran", "lead": "led",
    "drive": "drove", "breed": "bred", "go": "went", "take": "took", "buy": "bought", "sell": "sold", "begin": "began",
    "quit": "quit", "leave": "left", "win": "won", "lose": "lost", "get": "got", "fly": "flew", "break": "broke",
    "tear": "tore", "become": "became", "give": "gave", "meet": "met", "undergo": "underwent", "lend": "lent",
    "see": "saw", "do": "did", "split": "split",
}  # fmt: skip
_IRREGULAR_PARTICIPLE = {
    "eat": "eaten", "drink": "drunk", "speak": "spoken", "write": "written", "draw": "drawn", "sing": "sung",
    "wear": "worn", "grow": "grown", "swim": "swum", "ride": "ridden", "run": "run", "drive": "driven", "go": "gone",
    "take": "taken", "begin": "begun", "get": "got", "fly": "flown", "break": "broken", "tear": "torn",
    "become": "become", "give": "given", "undergo": "undergone", "see": "seen", "do": "done",
}  # fmt: skip
_DOUBLED = frozenset("plan stop jog knit program enrol quit get win run swim split begin drop prefer".split())


def third(verb: str) -> str:
    """`live` → `lives`."""
    if verb in ("have", "be"):
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def past(verb: str) -> str:
    if verb in _IRREGULAR_PAST:
        return _IRREGULAR_PAST[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ed"


def _ing(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ing"


BASES = HABITS | EVENTS | PLANS
THIRD = {third(verb): verb for verb in BASES}
PAST = {past(verb): verb for verb in EVENTS} | {"travelled": "travel", "cancelled": "cancel"}
PARTICIPLE = {_IRREGULAR_PARTICIPLE.get(verb, past(verb)): verb for verb in EVENTS | HABITS} | {"gotten": "get"}
ING = {_ing(verb): verb for verb in BASES} | {"travelling": "travel", "cancelling": "cancel"}

LASTING_ING = frozenset(
    """training learning studying working living planning saving moving writing reading building taking teaching raising
    recovering renovating renting dating starting preparing visiting flying traveling travelling leaving collecting
    running volunteering coaching getting going trying quitting adopting buying selling joining expecting volunteering
    allergic fostering opening launching retiring marrying""".split()
)
"""What one "is doing" for longer than the chat lasts."""

STATES = frozenset(
    """allergic intolerant lactose lactose-intolerant diabetic celiac coeliac asthmatic epileptic vegan vegetarian veggie
    pescatarian gluten-free kosher deaf blind colorblind colourblind color-blind colour-blind dyslexic autistic bipolar
    pregnant married engaged single divorced widowed retired unemployed self-employed left-handed right-handed bilingual
    fluent gay lesbian bisexual trans transgender queer nonbinary non-binary catholic muslim jewish christian
    hindu buddhist atheist agnostic german norwegian swedish danish finnish dutch french spanish italian portuguese
    polish czech hungarian romanian greek turkish russian ukrainian british english irish scottish welsh american
    canadian mexican brazilian argentinian chinese japanese korean vietnamese thai indian pakistani nigerian kenyan
    egyptian moroccan australian swiss austrian belgian filipino indonesian""".split()
)
"""What somebody can be said to be, without more words."""

PEOPLE = frozenset(
    """sister brother mother father mom mum mommy dad daddy wife husband partner girlfriend boyfriend fiance fiancé
    fiancee fiancée spouse son daughter child kid kids children baby twin twins twins sisters brothers parents friend
    boss manager colleague coworker aunt uncle cousin niece nephew grandmother grandfather grandma grandpa granny
    grandad grandson granddaughter grandparents roommate flatmate housemate neighbor neighbour landlord landlady doctor
    dentist therapist physio teacher coach accountant lawyer ex stepmother stepfather stepson stepdaughter
    sister-in-law brother-in-law mother-in-law father-in-law sons daughters mate bestie gf bf hubby nan gran""".split()
)
PETS = frozenset(
    """dog cat hamster rabbit parrot bird turtle tortoise guinea ferret fish lizard snake horse puppy kitten dogs cats
    pet""".split()
)
ATTRIBUTES = frozenset(
    """name surname nickname birthday anniversary number phone email mail e-mail address job profession title age height
    weight size budget salary rent password passcode pin code iban postcode zip username handle email major hometown
    nationality language goal blood type pronouns timezone gym bank wifi""".split()
)
"""What one has one of: a new value takes the place of the old one."""
THINGS = frozenset(
    """car bike bicycle motorbike house flat apartment room company startup business shop store band laptop computer
    phone garden flight trip wedding exam appointment interview surgery course degree thesis school team hobby boat van
    truck guitar piano bookshop restaurant office landline holiday vacation marathon family""".split()
)


def is_about(noun_phrase: list[str]) -> bool:
    """Whether "my …" names somebody or something that the rules know."""
    return "favourite" in noun_phrase or "favorite" in noun_phrase or bool(_NOUNS & frozenset(noun_phrase))


_NOUNS = PEOPLE | PETS | ATTRIBUTES | THINGS
