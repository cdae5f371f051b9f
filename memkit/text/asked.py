"""What kind of answer a question wants, in twenty languages: a number, a time, or what is so by now.

What may as well be another word is left out ("ora" is now and hour in Italian, "ile" is how much in Polish and with in
Turkish). English is read by `memkit.retrieval.query`, which knows its phrases.
"""

from __future__ import annotations

from dataclasses import dataclass

from memkit.text.words import is_unspaced, words

_NUMBER = """
    combien cuánto cuánta cuántos cuántas quanto quanta quanti quante quantos quantas wieviel wieviele wie_viel
    wie_viele wie_oft wie_lange wie_alt wie_groß сколько скільки कितना कितने कितनी كم بكام כמה bao_nhiêu mấy berapa ilu
    hoeveel hoe_oud hoe_vaak hoe_lang hur_många hur_mycket hur_stor hur_ofta hur_gammal hvor_mange hvor_mye hvor_meget
    kaç ne_kadar πόσο πόσα πόσες πόσους πόσων কত quel_âge
    多少 几个 几只 几次 几岁 几块 几斤 多大 幾個 幾歲 いくら いくつ 何歳 何人 何回 何個 何匹 얼마 몇 เท่าไหร่ เท่าไร กี่
"""
_TIME = """
    quand cuándo wann quando когда коли कब متى امتى إمتى מתי khi_nào bao_giờ ngày_nào kapan kiedy wanneer när hvornår
    ne_zaman πότε কখন কবে 什么时候 什麼時候 几号 几点 哪天 いつ 何日 何時 언제 며칠 เมื่อไหร่ เมื่อไร วันไหน
"""
_NOW = """
    maintenant actuellement encore toujours en_ce_moment mtn ahora actualmente todavía aún jetzt aktuell derzeit
    momentan noch agora atualmente ainda adesso attualmente ancora сейчас теперь зараз ещё अभी अब الآن دلوقتي حاليا
    لسه עכשיו עדיין כרגע bây_giờ hiện_tại sekarang masih teraz obecnie nadal nu nog nuvarande fortfarande stadig
    şimdi şu_an τώρα ακόμα এখন 现在 目前 现今 現在 今の 今は 今も 今どこ 今何 今いくら いま 最近 지금 요즘 아직 ตอนนี้
"""


@dataclass(frozen=True, slots=True)
class Saying:
    """Ways to say one thing: words, several of them in a row, and parts of texts that set no blanks."""

    single: frozenset[str]
    phrases: tuple[str, ...]
    parts: tuple[str, ...]

    @classmethod
    def of(cls, table: str) -> Saying:
        ways = [way.replace("_", " ") for way in table.split()]
        folded = {way: " ".join(words(way)) for way in ways if not is_unspaced(way)}
        return cls(
            frozenset(one for one in folded.values() if " " not in one),
            tuple(f" {one} " for one in folded.values() if " " in one),
            tuple(way for way in ways if way not in folded),
        )

    def is_in(self, text: str, folded: list[str]) -> bool:
        """`folded`: the words of `text`."""
        if not self.single.isdisjoint(folded):
            return True
        line = f" {' '.join(folded)} "
        return any(one in line for one in self.phrases) or (
            not text.isascii() and any(part in text for part in self.parts)
        )


ASKS_NUMBER, ASKS_TIME, ASKS_NOW = Saying.of(_NUMBER), Saying.of(_TIME), Saying.of(_NOW)
