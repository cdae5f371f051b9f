"""The world is a pure function of its seed, its splits are disjoint, and its truth is what its sentences say."""

from __future__ import annotations

import pytest

from memkit.embedders import make_embedder
from memkit_train.lab.worlds import (
    Knobs,
    OracleBackbone,
    SimulatedUser,
    TeacherBackbone,
    Truth,
    generate,
    language,
    matches,
)
from memkit_train.lab.worlds.dataset import as_conversation
from memkit_train.lab.worlds.language import read
from memkit_train.lab.worlds.model import RATES
from memkit_train.lab.worlds.policies import answer, careless, imperfect, kind_of, manage
from memkit_train.lab.worlds.reader import WorldReader
from memkit_train.lab.worlds.users import Ask, Manners, Say
from memkit_train.replay import Env, Policy, script_of


def played(episodes, backbone, embedder):
    env = Env(embedder)
    scripts = [
        script_of(one.user_id, [said.as_turn(one.user_id) for said in as_conversation(one).turns]) for one in episodes
    ]
    return env.run([(env.start(script), Policy(backbone)) for script in scripts], upto=None)


@pytest.mark.parametrize("level", ["closed", "open"])
def test_episodes_depend_on_seed_and_index_alone(level):
    few, many = (generate(n, seed=5, knobs=Knobs(level=level)) for n in (3, 6))
    assert few == many[:3]
    assert few != generate(3, seed=6, knobs=Knobs(level=level))


def test_closed_combinations_are_held_out():
    def said(split):
        return {
            (meaning.subject, meaning.attribute, value)
            for episode in generate(40, seed=1, split=split)
            for turn in episode.turns
            for fact in turn.facts
            if (meaning := language.read(fact)) and meaning.attribute not in ("plan", "sister")
            for value in meaning.values
        }

    planned = {"city", "job"}  # a plan that comes true carries its own combination
    train = {one for one in said("train") if one[1] not in planned}
    assert train
    assert not train & {one for one in said("heldout") if one[1] not in planned}


def test_open_names_and_templates_are_held_out():
    seen = {word for e in generate(30, seed=1, knobs=Knobs(level="open")) for word in e.people}
    held = generate(30, seed=1, knobs=Knobs(level="open", unseen_templates=True), split="heldout")
    assert not seen & {word for e in held for word in e.people}
    known = {t.text for e in generate(30, seed=1, knobs=Knobs(level="open")) for t in e.turns if t.move == "smalltalk"}
    assert not known & {t.text for e in held for t in e.turns if t.move == "smalltalk"}


@pytest.mark.parametrize("sessions", [8, 16, 32])
def test_length_people_and_replies_are_knobs(sessions):
    (one,) = generate(1, seed=2, knobs=Knobs(sessions=sessions, people=4, replies=True))
    assert len(one.sessions) == sessions
    assert len(one.people) == 4
    assert all(sum(turn.role == "user" for turn in session.turns) >= 4 for session in one.sessions)
    assert [turn.at for turn in one.turns] == sorted(turn.at for turn in one.turns)


def test_every_kind_of_turn_and_question_comes_up():
    episodes = generate(60, seed=3)
    assert {turn.move for one in episodes for turn in one.turns} == set(RATES)
    kinds = {question.kind for one in episodes for question in one.questions}
    assert kinds == {"single", "list", "count", "unknown", "owner", "hop", "asof"}


@pytest.mark.parametrize("mode", ["plain", "also", "gone", "planned"])
def test_facts_can_be_read_back(mode):
    meaning = language.Meaning("Ana", "pets", ("a dog named Rex", "a cat named Milo"), mode)
    assert language.read(language.write(meaning)) == meaning
    assert language.read("Ana visited Rome.") is None


@pytest.mark.parametrize(
    ("fact", "shown", "kind", "replies"),
    [
        ("Ana lives in Oslo.", ["Ben lives in Oslo."], "new", ["ADD"]),
        ("Ana lives in Oslo.", ["Ana lives in Rome."], "change", ["UPDATE 1"]),
        ("Ana lives in Oslo.", ["Ana lives in Oslo."], "restate", ["NOOP 1"]),
        ("Ana also enjoys yoga.", ["Ana enjoys chess."], "extend", ["UPDATE 1 Ana enjoys chess and yoga."]),
        ("Ana also enjoys yoga.", [], "new", ["ADD Ana enjoys yoga."]),
        ("Ana no longer enjoys chess.", ["Ana enjoys chess and yoga."], "retract", ["UPDATE 1 Ana enjoys yoga."]),
        ("Ana no longer enjoys chess.", ["Ana enjoys chess."], "retract", ["DELETE 1"]),
        ("Ana no longer enjoys chess.", ["Ana enjoys yoga."], "retract", ["NOOP"]),
        (
            "Ana lives in Oslo as planned.",
            ["Ana plans to move to Oslo.", "Ana lives in Rome."],
            "happened",
            ["UPDATE 2 Ana lives in Oslo.", "DELETE 1"],
        ),
        ("Ana joked about living in Oslo.", ["Ana lives in Rome."], "soft", ["NOOP"]),
        ("Ana lives in Oslo.", ["Ana lives in Rome.", "Ana lives in Lima."], "change", ["UPDATE 1", "DELETE 2"]),
    ],
)
def test_what_the_oracle_does(fact, shown, kind, replies):
    numbered = list(enumerate(shown, start=1))
    assert kind_of(fact, numbered) == kind
    assert manage(fact, numbered) == replies


def test_the_teacher_takes_a_second_dog_for_a_contradiction():
    shown = [(1, "Ana has a dog named Rex.")]
    fact = "Ana also has a cat named Milo."
    assert imperfect(fact, shown, 0.0) == manage(fact, shown)
    assert imperfect(fact, shown, 0.5) == ["UPDATE 1 Ana has a cat named Milo."]
    assert imperfect(fact, shown, 0.99) == ["ADD"]


def test_shortening_a_list_can_have_a_habit_of_its_own():
    shown = [(1, "Ana has a dog named Rex and a cat named Milo.")]
    fact = "Ana no longer has a cat named Milo."
    shortened = ["UPDATE 1 Ana has a dog named Rex."]
    assert imperfect(fact, shown, 0.7, {"retract": 0.2, "shorten": 0.8}) == shortened
    assert imperfect(fact, shown, 0.7, {"retract": 0.2}) == ["NOOP"]
    alone = [(1, "Ana has a cat named Milo.")]
    assert imperfect(fact, alone, 0.7, {"retract": 0.2, "shorten": 0.8}) == ["NOOP"]


def test_a_careless_answer_reads_the_first_line_about_the_person_alone():
    facts = ["Leo lives in Oslo.", "Ana has a dog named Rex.", "Ana lives in Lima."]
    lines = [(number, [read(fact)]) for number, fact in enumerate(facts, start=1)]
    assert answer("Where does Ana live?", lines) == ("Lima", (3,))
    assert careless("Where does Ana live?", lines, 0.9) == ("a dog named Rex", (2,))
    assert careless("Where does Ana live?", lines, 0.1) == ("unknown", ())
    assert careless("Where does Mia live?", lines, 0.9) == ("unknown", ())


def test_the_oracle_keeps_exactly_what_is_true_and_answers_everything():
    episodes = generate(12, seed=9, split="heldout", knobs=Knobs(people=3))
    truth, embedder = Truth(episodes), make_embedder("hash")
    trails = played(episodes, OracleBackbone(truth), embedder)
    reader = WorldReader(truth, embedder, words=200)
    for episode, trail in zip(episodes, trails, strict=True):
        kept = {meaning.key: set(meaning.values) for r in trail.end.live.state if (meaning := language.read(r.text))}
        assert kept == {key: set(values) for key, values in episode.final.items()}
        for question in episode.questions:
            bank = trail.end.live if question.as_of is None else trail.as_of(question.as_of, embedder)
            assert matches(question, reader.ask(question, bank).text), question


def test_evidence_names_the_turns_that_said_so():
    for episode in generate(10, seed=4):
        texts = {turn.ref: turn.text for turn in episode.turns}
        for question in episode.questions:
            assert set(question.evidence) <= texts.keys()
            if question.kind in ("single", "asof"):
                (value,) = question.answer
                assert any(value.split()[-1] in texts[ref] for ref in question.evidence)


def test_playing_twice_gives_the_same_banks():
    episodes = generate(3, seed=8)
    banks = [
        [
            trail.end.live.state.hash()
            for trail in played(episodes, TeacherBackbone(Truth(episodes), seed=1), make_embedder("hash"))
        ]
        for _ in range(2)
    ]
    assert banks[0] == banks[1]


def test_users_rate_a_share_of_answers_and_err_in_some():
    rated = honest = total = 0
    for index, episode in enumerate(generate(60, seed=2)):
        user = SimulatedUser(episode, seed=index)
        for event in user.script(final_questions=True):
            if isinstance(event, Say):
                continue
            reaction = user.react(event, event.question.expected)
            assert reaction.right
            assert reaction == user.react(event, event.question.expected)
            total += 1
            if reaction.rating is not None:
                rated += 1
                honest += reaction.rating == 1.0
    assert 0.25 < rated / total < 0.35
    assert 0.84 < honest / rated < 0.96


def test_users_correct_and_ask_again_after_wrong_answers():
    follow_ups = []
    for index, episode in enumerate(generate(30, seed=2)):
        user = SimulatedUser(episode, seed=index, manners=Manners(corrects=0.5, asks_again=0.5))
        for event in user.script():
            if isinstance(event, Ask):
                follow_ups.append((event, user.react(event, "nonsense").follow_up))
    said = [(ask, one) for ask, one in follow_ups if isinstance(one, Say)]
    assert said
    assert any(isinstance(one, Ask) and one.again for _, one in follow_ups)
    for ask, one in said:
        assert language.read(one.turn.facts[0]).values == ask.question.answer
