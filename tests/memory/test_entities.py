"""Whom and what memories name: `entities` and `about`, on words as people type them, in many scripts; and that nothing
of what was ended, or of others, is in either."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidInput, NotAllowed
from memkit.models import Entity
from memkit.text.names import find_names, refers, spell
from tests.bench._rights_world import StandingClock

SAID = {
    "en": (["my sister Liezl asks for her tuition", "Liezl stopped school"], "Liezl", "person", "sister"),
    "en, typed small": (["i owe my cousin tre 600", "movin in w tre in mesa"], "tre", "person", "cousin"),
    "en, called": (["rescue greyhound called duchess, 5 yrs old"], "duchess", "animal", "greyhound"),
    "en, place": (["So Utrecht is nice, my flat in Utrecht is small"], "Utrecht", "place", ""),
    "de": (["meine schwester lina kommt am wochenende", "lina bleibt bis montag"], "lina", "person", "schwester"),
    "de, in capitals": (["Meine Freundin Katja kommt am Freitag"], "Katja", "person", "freundin"),
    "es": (["quiero ir con dani, mi novio", "y con dani se acabó"], "dani", "person", "novio"),
    "pt": (["racho com meu primo jonas", "e o jonas foi morar com a namorada"], "jonas", "person", "primo"),
    "nl": (["ik ga bij mn zus anouk in zeist werken", "o en anouk is zwanger"], "anouk", "person", "zus"),
    "sv": (["grannen micke hjälper till", "annars hamnar vi på mickes tomt"], "micke", "person", "grannen"),
    "ru": (["веру теперь зовут марта"], "марта", "other", ""),
    "vi": (["bé Lan phụ gói hàng buổi chiều", "rồi tăng bé Lan lên 4tr5"], "Lan", "person", ""),
    "zh": (["是小雨写的导出没关连接", "表妹要跟我合租，她也叫小雨（跟同事重名）"], "小雨", "person", ""),
    "ja": (["うちの妹もゆいやからほんまややこしい", "ゆいが韓国語検定3級うかった"], "ゆい", "person", "妹"),
    "ko": (["내 절친 지은이랑 이름만 같고", "지은이가 차로 다 날라줌"], "지은", "person", "절친"),
    "ar": (["احمد صاحبي يعني", "احمد صاحبي سافر السعودية"], "احمد", "person", "صاحبي"),
    "hi": (["पति रवि बैंक में हैं", "रवि का ट्रांसफर आ गया"], "रवि", "person", "पति"),
    "he": (["השותפה שלי מאיה עוזבת", "טסה עם מאיה מהצבא"], "מאיה", "person", "השותפה"),
}


def remember(memory: Memory, *said: str, user_id: str = "ana", **options: object) -> None:
    for text in said:
        memory.add(text, user_id=user_id, session_id="s1", **options)  # pyright: ignore[reportArgumentType]


def named(memory: Memory, user_id: str = "ana") -> dict[str, Entity]:
    return {one.name: one for one in memory.entities(user_id=user_id)}


@pytest.mark.parametrize("language", SAID)
def test_names_are_found_in_any_script_and_nothing_else(language: str, tmp_path: Path) -> None:
    said, name, kind, relation = SAID[language]
    with Memory(tmp_path / "s") as memory:
        remember(memory, *said)
        found = named(memory)
        assert list(found) == [name]
        assert (found[name].kind, found[name].relations) == (kind, (relation,) if relation else ())
        assert len(memory.about(name, user_id="ana")) == len(said)


def test_what_is_no_name_is_no_entity(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        remember(
            memory,
            "Perfect, thanks! I saw my sister yesterday. On Monday I will work from home.",
            "my dad won the race and my mum told me",
            "then we won and she told everybody",
            "Ich habe gestern eine neue Küche gekauft, mein Bruder kommt im Januar.",
            "WHEEL STUCK. nothing is stuck",
            "mi madre dice que no",
        )
        assert named(memory) == {}


def test_one_entity_under_its_names_and_a_word_that_is_written_small_elsewhere_is_none(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        remember(
            memory, "I met Maya Cohen today", "then maya called me", "It was a Great day", "a great day, a great week"
        )
        assert {one.name: one.names for one in memory.entities(user_id="ana")} == {"Maya Cohen": ("Maya Cohen",)}
        assert len(memory.about("maya", user_id="ana")) == 2
        assert memory.about("Cohen", user_id="ana") == memory.about("Maya Cohen", user_id="ana")


def test_about_follows_what_somebody_is_called_and_she(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        remember(
            memory,
            "my sister Liezl asks for her tuition",
            "she is pregnant now",
            "nice weather here",
            "my sister needs milk for the baby",
            "Jomar wants shoes",
            "he is so tall",
        )
        about = [record.text for record in memory.about("Liezl", user_id="ana")]
        assert about == [
            "my sister Liezl asks for her tuition",
            "she is pregnant now",
            "my sister needs milk for the baby",
        ]
        assert [record.text for record in memory.about("my sister", user_id="ana")] == about
        assert [record.text for record in memory.about("Liezl", user_id="ana", limit=1)] == about[-1:]
        assert len(memory.about("weather", user_id="ana")) == 1  # any word will do
        assert memory.about("Rex", user_id="ana") == []
        with pytest.raises(InvalidInput):
            memory.about("", user_id="ana")


def test_of_what_has_ended_nothing_is_told(tmp_path: Path) -> None:
    clock = StandingClock()
    with Memory(tmp_path / "s", clock=clock) as memory:
        soon = clock.now() + timedelta(days=1)
        remember(memory, "my dog Rex is ill", infer=False, expires_at=soon)
        gone = memory.add("my cat Filemon is ill", user_id="ana", infer=False)
        erased = memory.add("my friend Joris is strict", user_id="ana", infer=False)
        kept = memory.add("my aunt Sunita is next door", user_id="ana", infer=False)
        assert set(named(memory)) == {"Rex", "Filemon", "Joris", "Sunita"}
        memory.delete(gone.ops[0].memory_id or "", user_id="ana")
        memory.erase(user_id="ana", turn_id=erased.trace_id)
        clock.at += timedelta(days=2)
        assert set(named(memory)) == {"Sunita"}
        assert [memory.about(name, user_id="ana") for name in ("Rex", "Filemon", "Joris")] == [[], [], []]
        assert named(memory)["Sunita"].memories == (kept.ops[0].memory_id,)
        memory.erase(user_id="ana")
        assert memory.entities(user_id="ana") == memory.about("Sunita", user_id="ana") == []


def test_only_those_who_may_read_are_told(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        remember(memory, "my dog Rex is ill", user_id="ben")
        memory.add("my cat Filemon is ill", user_id="ana", agent_id="vet")
        team = memory.principal("ana").create_space("team")
        team.add("We hired Sunita, my friend Sunita")
        assert set(named(memory)) == {"Filemon"}
        assert memory.about("Rex", user_id="ana") == memory.about("Sunita", user_id="ana") == []
        assert memory.entities(user_id="ana", agent_id="chat") == []
        assert [one.name for one in memory.user("ana", agent_id="vet").entities()] == ["Filemon"]
        assert {one.name for one in team.entities()} == {"Sunita", "ana"}  # who says it, and of whom
        eve = memory.principal("eve").space("team")
        for refused in (lambda: eve.entities(), lambda: eve.about("Sunita")):
            with pytest.raises(NotAllowed):
                refused()


def test_what_nobody_said_names_nobody(tmp_path: Path) -> None:
    """Who plants a name in a document gets no entity, and what a tool says is about nobody."""
    with Memory(tmp_path / "s") as memory:
        memory.add_document("my sister Liezl owes you money", name="a.txt", user_id="ana")
        memory.add([{"role": "tool", "content": "my dog Rex owes you", "tool_call_id": "1"}], user_id="ana")
        assert memory.entities(user_id="ana") == memory.about("Liezl", user_id="ana") == []
        assert memory.about("Rex", user_id="ana") == []


def test_the_verbs_can_be_awaited(tmp_path: Path) -> None:
    async def ask() -> tuple[list[str], int]:
        memory = AsyncMemory(tmp_path / "s")
        await memory.add("my dog Rex is ill", user_id="ana")
        found, about = await memory.entities(user_id="ana"), await memory.about("rex", user_id="ana")
        await memory.close()
        return [one.name for one in found], len(about)

    assert asyncio.run(ask()) == (["Rex"], 1)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert all(name.text and name.key for name in find_names(text))
    assert all(spell(text))
    assert refers(text) in (True, False)
