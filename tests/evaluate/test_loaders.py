"""Published formats, their dirt, and complaints that name the line."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from memkit.errors import InvalidConfig, InvalidInput
from memkit_train.evaluate.loaders import load

LOCOMO = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "I moved to Oslo."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a cat on a sofa"},
        ],
        "session_2_date_time": "9:05 am on 1 June, 2023",
        "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "I took up chess."}],
        "session_3_date_time": "9:05 am on 2 June, 2023",
    },
    "qa": [
        {"question": "Where does Ana live? ", "answer": "Oslo", "evidence": ["D1:1; D2:1"], "category": 4},
        {"question": "When?", "answer": 2023, "evidence": ["D:1:1", "D9:9", "D"], "category": 2},
        {"question": "Does Ana ski?", "adversarial_answer": "yes", "evidence": ["D2:1"], "category": 5},
        {"question": "Why?", "answer": "fun", "category": 3},
    ],
}


def write(tmp_path, name, value):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_locomo_and_its_dirt(tmp_path):
    data = load(f"locomo:{write(tmp_path, 'l.json', [LOCOMO])}")
    (talk,) = data.conversations
    assert [turn.ref for turn in talk.turns] == ["D1:1", "D1:2", "D2:1"]
    assert talk.turns[1].text == "Look! [shares a photo: a cat on a sofa]"
    assert talk.turns[0].at.isoformat() == "2023-05-08T13:56:00+00:00"
    first, second, third, fourth = talk.questions
    assert first.text == "Where does Ana live?"
    assert first.evidence == ("D1:1", "D2:1")
    assert second.gold == ("2023",)
    assert second.evidence == ("D1:1",)
    assert third.gold == ()
    assert third.stale == ("yes",)
    assert (third.category, third.number) == ("5 adversarial", 5)
    assert fourth.evidence == ()
    assert data.repairs["evidence id repaired"] == 2
    assert data.repairs["evidence of a turn that does not exist dropped"] == 1
    assert data.repairs["evidence without a turn id dropped"] == 1


MSC = {
    "metadata": {"initial_data_id": "train:1"},
    "previous_dialogs": [
        {"dialog": [{"text": "I have a dog."}, {"text": "Cool."}], "time_num": 3, "time_unit": "days"}
    ],
    "dialog": [{"text": "Rex is well.", "id": "Speaker 1"}, {"text": "Good.", "id": "Speaker 2"}],
    "self_instruct": {"B": "What is my dog called?", "A": "Rex"},
}
LONGMEM = {
    "question_id": "q1",
    "question_type": "knowledge-update",
    "question": "Where do I live?",
    "answer": "Oslo",
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/10 (Wed) 12:00"],
    "haystack_session_ids": ["s_b", "s_a"],
    "answer_session_ids": ["s_b"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "I moved to Oslo.", "has_answer": True},
            {"role": "assistant", "content": "Nice."},
        ],
        [{"role": "user", "content": "I live in Rome."}],
    ],
}


def test_longmemeval_sorts_sessions_and_finds_evidence(tmp_path):
    unanswerable = LONGMEM | {"question_id": "q2_abs", "haystack_session_ids": ["x", "x"]}
    data = load(f"longmemeval:{write(tmp_path, 'lme.json', [LONGMEM, unanswerable])}")
    first, second = data.conversations
    assert [turn.session_id for turn in first.turns] == ["s_a", "s_b", "s_b"]
    assert first.questions[0].evidence == ("s_b:1",)
    assert first.questions[0].at.day == 30
    assert second.questions[0].gold == ()
    assert second.sessions == ["x", "x#2"]
    assert load(f"longmemeval:{tmp_path / 'lme.json'}", 1).describe()["conversations"] == 1


def test_msc_with_made_up_questions(tmp_path):
    data = load(f"msc:{write(tmp_path, 'm.jsonl', json.dumps(MSC))}")
    (talk,) = data.conversations
    assert [turn.ref for turn in talk.turns] == ["s1:1", "s1:2", "s2:1", "s2:2"]
    assert (talk.turns[2].at - talk.turns[0].at).days == 3
    assert talk.turns[1].speaker == "Speaker 2"
    assert talk.questions[0].gold == ("Rex",)


def test_msc_sessions_are_in_order_whatever_passed_between_them(tmp_path):
    """A gap is the time until the next session: five days, two hours, and one that is not told."""
    said = [{"text": "hi"}]
    gaps = [{"time_num": 5, "time_unit": "days"}, {}, {"time_num": 2, "time_unit": "hours"}]
    raw = MSC | {"previous_dialogs": [{"dialog": said} | gap for gap in gaps], "dialog": said}
    data = load(f"msc:{write(tmp_path, 'm.jsonl', json.dumps(raw))}")
    times = [turn.at for turn in data.conversations[0].turns]
    assert [(later - at).total_seconds() / 3600 for at, later in pairwise(times)] == [120, 24, 2]
    endless = [{"dialog": said, "time_num": 900, "time_unit": "years"}] * 3
    assert load(f"msc:{write(tmp_path, 'm.jsonl', json.dumps(raw | {'previous_dialogs': endless}))}").repairs


def test_conversations_of_one_name_are_kept_apart(tmp_path):
    again = LOCOMO | {"sample_id": "conv-1#2"}
    data = load(f"locomo:{write(tmp_path, 'l.json', [LOCOMO, again, LOCOMO, LOCOMO])}")
    assert [one.conversation_id for one in data.conversations] == ["conv-1", "conv-1#2", "conv-1#3", "conv-1#4"]
    assert data.repairs["repeated conversation id renamed"] == 2


def test_plain_jsonl(tmp_path):
    lines = [
        {
            "conversation": "c",
            "content": "I moved to Oslo.",
            "name": "Ana",
            "at": "2024-05-01T09:00:00+00:00",
            "id": "t1",
        },
        {"conversation": "c", "content": "Nice.", "role": "assistant"},
        {"conversation": "c", "question": "Where?", "answer": ["Oslo", "Oslo, Norway"], "evidence": ["t1"]},
        {"conversation": "c", "question": "Pets?", "answer": None},
    ]
    data = load(f"jsonl:{write(tmp_path, 'c.jsonl', chr(10).join(map(json.dumps, lines)))}")
    (talk,) = data.conversations
    assert talk.questions[0].gold == ("Oslo", "Oslo, Norway")
    assert talk.questions[1].gold == ()
    assert talk.turns[1].at > talk.turns[0].at


def test_a_turn_is_whose_the_runtime_takes_it_for(tmp_path):
    lines = [{"content": "hi", "role": role} for role in ("User", "AI", "tool", "system")]
    asked = {"question": "q", "answer": "x", "evidence": ["s1:1", "s1:1", "s1:2"]}
    data = load(f"jsonl:{write(tmp_path, 'c.jsonl', chr(10).join(map(json.dumps, [*lines, asked])))}")
    (talk,) = data.conversations
    turns = [said.as_turn("u") for said in talk.turns]
    assert [turn.role for turn in turns] == ["user", "ai", "tool", "system"]
    assert [turn.origin for turn in turns] == ["user", "assistant", "tool", "document"]
    assert talk.questions[0].evidence == ("s1:1", "s1:2"), "a turn named twice is one"


def test_null_is_read_as_missing_and_counted(tmp_path):
    turn = {"conversation": None, "content": "hi", "id": None, "name": None, "role": None, "session": None}
    asked = {"question": "q", "answer": None, "id": None, "category": None}
    data = load(f"jsonl:{write(tmp_path, 'n.jsonl', json.dumps(turn) + chr(10) + json.dumps(asked))}")
    (talk,) = data.conversations
    (said,) = talk.turns
    assert (talk.conversation_id, said.ref, said.speaker, said.role) == ("conversation", "s1:1", "", "user")
    assert (talk.questions[0].question_id, talk.questions[0].category) == ("conversation/0", "question")
    assert data.repairs["null 'id' read as missing"] == 2
    assert data.repairs["null 'name' read as missing"] == data.repairs["null 'role' read as missing"] == 1
    session = [{"speaker": None, "dia_id": None, "text": "hi"}, {"speaker": "Ana", "dia_id": "D1:2", "text": None}]
    talk = LOCOMO["conversation"] | {"session_1": session}
    data = load(f"locomo:{write(tmp_path, 'l.json', [LOCOMO | {'sample_id': None, 'conversation': talk, 'qa': []}])}")
    (found,) = data.conversations
    assert found.conversation_id == "conv-0"
    assert [(turn.ref, turn.speaker, turn.text) for turn in found.turns][:2] == [
        ("D1:1", "", "hi"),
        ("D2:1", "Ana", "I took up chess."),
    ]
    assert (data.repairs["empty turn skipped"], data.repairs["null 'text' read as missing"]) == (1, 1)
    data = load(f"msc:{write(tmp_path, 'm.jsonl', json.dumps(MSC | {'dialog': [{'text': None}]}))}")
    assert "None" not in [turn.text for turn in data.conversations[0].turns]


@pytest.mark.parametrize(
    ("kind", "text", "line", "words"),
    [
        ("jsonl", '{"content": "a", "id": "t1"}\n{"content": "b", "id": "t1"}', 2, "'t1' is that of an earlier turn"),
        ("jsonl", '{"content": "a"}\n{"question": "q", "answer": 1, "after": "s9"}', 2, "'after' names"),
        ("jsonl", '{"content": "hi"}\n{"content": 3}', 2, "'content' is a int"),
        ("jsonl", '{"content": "hi"}\n\n{oops', 3, "not JSON"),
        ("jsonl", '{"content": "a", "id": "t1"}\n{"question": "q", "answer": "x", "evidence": ["t9"]}', 2, "t9"),
        ("jsonl", '{"content": "hi", "at": "yesterday"}', 1, "ISO 8601"),
        ("jsonl", '{"content": "hi", "role": "robot"}', 1, "no role 'robot'"),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answers": "x"}', 2, "no 'answer' (there are: answers"),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answer": []}', 2, "'answer' is empty"),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answer": ["x", null]}', 2, "'answer' is empty"),
        ("msc", '{"dialog": "text"}', 1, "'dialog' is a str"),
        ("locomo", '[\n{"qa": []}\n]', 2, "no 'conversation'"),
        ("locomo", "[\n" + json.dumps(LOCOMO) + ",\n" + json.dumps(LOCOMO)[:-40], 3, "cut off"),
        (
            "longmemeval",
            json.dumps([LONGMEM | {"haystack_dates": ["2023/05/20 (Sat) 02:21"]}]),
            1,
            "2 sessions, 1 dates",
        ),
        ("longmemeval", json.dumps([LONGMEM | {"question_date": "someday"}]), 1, "'someday'"),
        ("longmemeval", json.dumps([LONGMEM | {"haystack_sessions": [["hi"], []]}]), 1, "entry 1 of session 's_b'"),
        ("longmemeval", json.dumps([LONGMEM | {"haystack_sessions": [[], "hi"]}]), 1, "'s_a' is a str"),
        ("longmemeval", json.dumps([LONGMEM | {"haystack_sessions": [[], []]}]), 1, "no session of 'q1' has a turn"),
        ("longmemeval", json.dumps([LONGMEM | {"answer_session_ids": 5}]), 1, "'answer_session_ids' is a int"),
        ("msc", json.dumps(MSC | {"previous_dialogs": ["x"]}), 1, "entry 1 of 'previous_dialogs' is a str"),
        ("msc", json.dumps(MSC | {"dialog": ["x"]}), 1, "entry 1 of 'dialog' is a str"),
        ("msc", json.dumps(MSC | {"qa": [5]}), 1, "entry 1 of 'qa' is a int"),
        ("locomo", json.dumps([LOCOMO | {"qa": [5]}]), 1, "entry 1 of 'qa' is a int"),
        ("locomo", json.dumps([LOCOMO | {"qa": [LOCOMO["qa"][0] | {"evidence": 7}]}]), 1, "'evidence' is a int"),
        (
            "locomo",
            json.dumps([LOCOMO | {"conversation": LOCOMO["conversation"] | {"session_2": ["hi"]}}]),
            1,
            "entry 1 of 'session_2' is a str",
        ),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answer": "x", "at": 5}', 2, "'at' is a int"),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answer": "x", "evidence": 7}', 2, "'evidence' is a int"),
        ("jsonl", '{"content": "hi", "at": "9999-12-31T23:59:59-23:59"}', 1, "year 9999"),
        ("jsonl", '{"content": "hi"}\n{"question": "q", "answer": "x", "conversation": "c2"}', 2, "no turn of it"),
        ("jsonl", '{"content": "\\ud83d"}', 1, "half a character"),
        ("jsonl", '{"content": "hi"}\n{"content": ' + "[" * 100_000, 2, "not readable"),
    ],
)
def test_malformed_files_name_their_line(tmp_path, kind, text, line, words):
    with pytest.raises(InvalidInput) as caught:
        load(f"{kind}:{write(tmp_path, 'bad', text)}")
    assert caught.value.details["line"] == line
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", ['{"content": "hi"}\n{"content": "café"}', '[{"content": "hi"},\n{"content": "café"}]']
)
def test_another_encoding_is_refused_before_it_breaks_what_is_written(tmp_path, text):
    path = tmp_path / "latin"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match="line 2: not UTF-8") as caught:
        load(f"jsonl:{path}")
    assert caught.value.details["line"] == 2
    path.write_text(text.replace("é", "\\ud83d\\ude00"), encoding="ascii")
    assert load(f"jsonl:{path}").conversations[0].turns[1].text == "caf😀", "two halves make a character"


@pytest.mark.parametrize("text", ["", "[]", "\n"])
def test_data_without_conversations_is_refused(tmp_path, text):
    with pytest.raises(InvalidInput, match="no conversations"):
        load(f"jsonl:{write(tmp_path, 'empty', text)}")


@pytest.mark.parametrize(
    "spec",
    [
        "nothing:x",
        "locomo",
        "locomo:/no/such/file",
        "jsonl:/tmp",
        "world:flat",
        "world:closed,colour=3",
        "world:closed,seed=²",
        "world:closed,sessions=0",
        "world:closed,people=99",
    ],
)
def test_unknown_data_sets_are_refused(spec):
    with pytest.raises(InvalidConfig):
        load(spec)


def test_the_world_is_a_data_set():
    data = load("world:open,count=2,people=3,seed=4")
    assert data.describe()["conversations"] == 2
    assert all(set(one.evidence) <= talk.refs() for talk in data.conversations for one in talk.questions)
