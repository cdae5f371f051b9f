"""What always matters is carried by every context, whatever is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit import Memory
from memkit.models import digest
from memkit.retrieval.context import estimate_tokens
from memkit.text import diets, standing, standing_words
from memkit.text import standing_words_7 as words_7
from memkit.text.standing import standing_part, stands, stood

ASKED = [
    ("im allergic to peanuts", "plan a dinner for saturday", "peanuts"),
    ("I'm vegan btw, so what can I cook?", "what should I order tonight?", "vegan"),
    ("always answer in French", "how do volcanoes work?", "French"),
    ("Call me Jonas", "write a greeting card from me", "Jonas"),
    ("please keep your answers short", "explain black holes", "short"),
    ("I have type 2 diabetes", "suggest a dessert", "diabetes"),
    ("my daughter Elsie is allergic to eggs", "ideas for a birthday cake", "eggs"),
    ("I'm a wheelchair user", "what can we do in Rome?", "wheelchair"),
    ("never use emojis with me", "say hello", "emojis"),
    ("I use they/them pronouns", "write a bio of me", "they/them"),
    ("soy alérgica a los mariscos", "¿qué preparo para cenar?", "mariscos"),
    ("我对花生过敏", "晚饭吃什么好", "花生"),
]
LANGUAGES = [
    "Ich bin Veganerin", "nenn mich Jo", "je suis allergique aux noix", "me chame de Bia", "sono celiaca",
    "ik ben vegetariër", "hab ne Nussallergie", "ik heb een notenallergie",
    "jestem weganką", "я веган", "я вегетаріанка", "είμαι χορτοφάγος", "אני טבעונית",
    "لدي حساسية من الفول السوداني",
    "मुझे मूंगफली से एलर्जी है", "আমি নিরামিষ খাই", "ฉันแพ้ถั่ว", "我吃素", "私は卵アレルギーです",
    "저는 땅콩 알레르기가 있어요",
    "tôi ăn chay", "ben vejetaryenim", "jag är vegan",
    "In kilometers, please",
    # how people say it to somebody: "you can call me …", "speak … with me", first names or not
    "du kannst mich ruhig Jo nennen", "puedes llamarme Lola", "tu peux m'appeler Jo", "puoi chiamarmi Gio",
    "pode me chamar de Zé", "je mag me Jo noemen", "możesz mi mówić Janek", "можешь называть меня Женя",
    "клич мене Женя", "kutsu minua Joksi", "bana Can diyebilirsin", "你可以叫我小王", "ジョーって呼んで",
    "आप मुझे जो बुला सकते हैं",
    "يمكنك مناداتي جو", "תקרא לי דנה", "μπορείς να με λες Νίκο", "respóndeme siempre en español", "tutéame",
    "sprich mit mir Deutsch", "duz mich bitte", "tu peux me tutoyer", "dammi del tu", "praat Nederlands met me",
    "pisz do mnie po polsku", "пиши мне по-русски", "пиши мені українською", "svar altid på dansk",
    "benimle Türkçe konuş",
    "跟我说中文", "いつも日本語で短く答えて", "敬語は使わないで", "항상 한국어로 짧게 대답해 줘",
    "반말로 해 줘", "मुझसे हिंदी में बात करो",
    "تكلم معي بالعربية", "דבר איתי בעברית", "μίλα μου ελληνικά", "yer fıstığına alerjim var", "我懷孕了",
    "jag är gravid",
    "jestem w ciąży", "אני בהריון", "ik heb suikerziekte", "mam wózek inwalidzki",
    "I can't eat shellfish", "ich esse kein Fleisch", "no puedo comer mariscos", "je mange pas de viande",
    "non mangio carne",
    "não como porco", "ik eet geen vlees", "nie jem mięsa", "мне нельзя орехи", "jag äter inte kött",
    "en syö lihaa",
    "et yemiyorum", "saya tidak makan daging", "tôi không ăn thịt", "我不吃肉", "肉は食べません",
    "새우를 못 먹어요",
    "मैं मांस नहीं खाता", "أنا لا آكل اللحم", "אני לא אוכל בשר", "δεν τρώω κρέας", "ผมไม่กินหมู",
    # as models word it
    "User prefers to be called Jo", "User's preferred name is Jo", "User reacts badly to penicillin",
    "User prefers answers in German", "Der Nutzer möchte Jo genannt werden",
    "El usuario prefiere respuestas en español",
    "L'utilisateur préfère qu'on l'appelle Jo", "Пользователь предпочитает короткие ответы",
    "用户希望被称为小李",
    "ユーザーはジョーと呼ばれたい", "사용자는 짧은 답변을 선호한다", "Kullanıcı fıstık yiyemez",
    "المستخدم لا يأكل اللحم",
]  # fmt: skip
CHAT = "today I saw film number {n} and walked {n} miles, it was fun"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        yield memory


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A user for each pair, who has said 150 other things since."""
    with Memory(tmp_path_factory.mktemp("busy") / "m") as memory:
        for n, (said, _, _) in enumerate(ASKED):
            memory.add(said, user_id=f"u{n}")
            talk = [{"role": "user", "content": CHAT.format(n=number)} for number in range(150)]
            memory.add(talk, user_id=f"u{n}", infer=False)
        yield memory


@pytest.mark.parametrize("number", range(len(ASKED)), ids=[said for said, _, _ in ASKED])
def test_what_always_matters_is_there_whatever_is_asked(busy: Memory, number: int) -> None:
    _, asked, held = ASKED[number]
    block = busy.context(asked, user_id=f"u{number}", max_tokens=300)
    assert held in block
    assert estimate_tokens(block) <= 300


@pytest.mark.parametrize("said", LANGUAGES)
def test_it_is_recognised_in_many_languages(said: str) -> None:
    assert standing_part(f"{said}. ok") == f"{said}."


@pytest.mark.parametrize(
    "said",
    [
        "is a peanut allergy common?",
        "call me later",
        "I had a great day",
        "he answered in a hurry",
        "my cat sleeps",
        "how far is it in miles, please?",
        "User prefers to be called before nine",
        "the restaurant cannot serve shellfish",
        "I can't eat fish tonight",
        "Je ne mange pas à midi et je cours",
        "Ich esse heute nichts",
        "User prefers answers to questions about Rome",
        "Die Antwort auf die Bewerbung war kurz",
        "puedes llamarme mañana",
        "tu peux m'appeler plus tard",
        "mon prof parle trop en anglais",
        "hij praat altijd over voetbal",
        "昨天妈妈叫我回家",
        "她跟我说坏话",
        "先生は英語で話していた",
        "그는 한국어로 말했다",
        "можешь звать гостей",
        "المدير تكلم معي بالأمس",
        "הבוס לא ענה לי",
        "patron cevap vermedi",
        "",
    ],
)
def test_what_tells_nothing_of_the_kind_does_not_stand(said: str) -> None:
    assert not stands(said)


def test_a_memory_is_pinned_let_go_and_undone(memory: Memory) -> None:
    (op,) = memory.add("I live in Oslo.", user_id="ana").ops
    ana = memory.user("ana")
    assert ana.profile() == []
    pinned = ana.pin(op.memory_id)
    assert (pinned.standing, pinned.revision, pinned.at) == (True, 2, op.after.at if op.after else None)
    assert [one.text for one in ana.profile()] == ["User lives in Oslo."]
    assert "Oslo" in ana.context("what is for dinner?")
    ana.undo(op_id=ana.history()[-1].op_id)
    assert ana.profile() == []
    ana.pin(op.memory_id)
    assert not ana.pin(op.memory_id, pinned=False).standing
    assert ana.profile() == []


def test_where_much_stands_the_user_s_own_comes_first_and_how_to_answer_keeps_its_place(memory: Memory) -> None:
    memory.add("I have type 2 diabetes.", user_id="ana")
    memory.add("always answer in French", user_id="ana")
    for name in ("Liezl", "Steph", "Robin", "Priya", "Tomas", "Wendy", "Oluchi", "Marek"):
        memory.add(f"{name} stopped school for good this spring, {name} is pregnant.", user_id="ana")
    block = memory.context("what can you tell about volcanoes?", user_id="ana", max_tokens=300)
    assert "diabetes" in block
    assert "French" in block


def test_what_ended_stands_no_more(memory: Memory) -> None:
    memory.add("I'm allergic to peanuts.", user_id="ana")
    (one,) = memory.profile(user_id="ana")
    seq = memory.history(user_id="ana")[-1].seq
    memory.delete(one.id, user_id="ana")
    assert memory.profile(user_id="ana") == []
    assert "peanut" not in memory.context("dinner", user_id="ana")
    assert "peanut" in memory.context("dinner", user_id="ana", as_of=seq)


def test_what_expires_stands_no_more(memory: Memory) -> None:
    memory.add("I'm on antibiotics, and vegan.", user_id="ana", expires_at=datetime.now(UTC) - timedelta(days=1))
    assert memory.profile(user_id="ana") == []


def test_only_the_user_says_what_always_matters(memory: Memory) -> None:
    memory.add([{"role": "tool", "content": "The guest is allergic to nuts."}], user_id="ana")
    memory.add([{"role": "assistant", "content": "I am vegan, call me Bo."}], user_id="ana")
    assert memory.profile(user_id="ana") == []


def test_it_leaves_room_for_what_is_asked(memory: Memory) -> None:
    for food in ("nuts", "eggs", "milk", "soy", "fish", "wheat", "celery", "mustard", "sesame", "lupin"):
        memory.add(f"My guest {food.title()} Miller is allergic to {food}.", user_id="ana")
    memory.add("The garage code is 4408.", user_id="ana")
    block = memory.context("what is the garage code?", user_id="ana", max_tokens=140)
    assert "4408" in block
    assert "allergic" in block


def test_it_stands_after_a_restart_from_lancedb_and_in_an_export(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory:
        memory.add("I'm allergic to peanuts.", user_id="ana")
        memory.flush()
        memory.export(tmp_path / "all.jsonl")
    with Memory(tmp_path / "m") as memory:
        assert [one.standing for one in memory.list(user_id="ana")] == [True]
        assert [one.text for one in memory.profile(user_id="ana")] == ["User is allergic to peanuts."]
    with Memory(tmp_path / "other") as memory:
        memory.import_(tmp_path / "all.jsonl")
        assert [one.text for one in memory.profile(user_id="ana")] == ["User is allergic to peanuts."]


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_text_is_too_much(text: str) -> None:
    assert isinstance(stands(text), bool)


def test_the_words_that_stand_change_with_an_edition_alone() -> None:
    """Editions mark by the same words for ever, or a log is not replayed as it was decided. Where this fails, see the
    top of `memkit.text.standing`."""
    always = (standing._ASKS, standing._OWN, diets._NOT_EATEN, *diets._FOODS.values(), diets._FOR_NOW)
    seventh = (words_7.HEALTH, words_7.DEAF, words_7.CALLED, words_7.ANSWERED)
    assert _digest(*seventh, *always) == "efc6ebc07716c2c4"
    eighth = [one for words in standing_words._SCRIPTS for one in (words.health, words.called, words.answered)]
    assert _digest(*eighth, *always) == "49b732d8b4dbea36"


def test_a_log_is_marked_by_the_words_of_its_edition() -> None:
    assert stands("du kannst mich Jo nennen")
    assert not stood("du kannst mich Jo nennen")
    assert stood("nenn mich Jo")


def _digest(*tables: re.Pattern[str]) -> str:
    return digest([table.pattern for table in tables])[:16]
