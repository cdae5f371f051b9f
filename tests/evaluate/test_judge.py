"""The judge's protocol against a stub endpoint, malformed verdicts included."""

from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from memkit.errors import InvalidConfig, InvalidInput, ModelUnavailable
from memkit_train.evaluate import JudgeConfig
from memkit_train.evaluate.command import app
from memkit_train.rewards.judge import agreement, endpoint, judge, judge_messages, read_verdict


def stub(replies, seen=None):
    """An OpenAI-compatible endpoint that gives these replies, one after the other."""
    left = iter(replies)

    def handle(request):
        body = json.loads(request.content)
        if seen is not None:
            seen.append(body)
        reply = next(left)
        if isinstance(reply, int):
            return httpx.Response(reply, stream=httpx.ByteStream(b""))
        if isinstance(reply, str):
            reply = json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
        return httpx.Response(200, stream=httpx.ByteStream(reply))

    return endpoint("https://judge.test/v1", "small", "key", transport=httpx.MockTransport(handle))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"label": "CORRECT"}', True),
        ('```json\n{"label": "wrong"}\n```', False),
        ("CORRECT", True),
        ("**Wrong.**", False),
        ("It may be CORRECT or WRONG", None),
        ("", None),
        ("INCORRECTLY", None),
        ("The answer is not correct.", None),
        ("It is only partially correct", None),
        ("nothing is wrong with it", None),
        ('{"label": "NOT CORRECT"}', None),
        ('{"label": true}', None),
        ("{'label': 'WRONG'}", False),
        ('I first thought WRONG. {"label": "CORRECT"}', True),
        ('{"label": "CORRECT"} {"label": "WRONG"}', None),
    ],
)
def test_verdicts(reply, expected):
    assert read_verdict(reply) is expected


def test_protocol():
    seen = []
    verdict = judge(stub(['{"label": "CORRECT"}'], seen), 'Where "now"?', "Oslo", "in Oslo")
    assert verdict.right is True
    (body,) = seen
    assert (body["model"], body["temperature"]) == ("small", 0)
    assert json.dumps('Where "now"?') in body["messages"][1]["content"]


def test_every_acceptable_form_is_shown():
    seen = []
    assert judge(stub(['{"label": "CORRECT"}'], seen), "q", ("NYC", "New York"), "New York").right
    system, user = (one["content"] for one in seen[0]["messages"])
    assert 'Gold answer: "NYC"\nGold answer: "New York"' in user
    assert "any one of them" in system
    assert "any one of them" not in judge_messages("q", ("NYC",), "a", "strict")[0]["content"]


def test_an_unreadable_verdict_is_asked_again_and_then_counts_as_neither():
    seen = []
    assert judge(stub(["hm", '{"label": "WRONG"}'], seen), "q", "g", "a").right is False
    assert len(seen[1]["messages"]) == 4
    assert judge(stub(["hm", "hm"]), "q", "g", "a").right is None


def test_strict_and_lenient_differ():
    strict, lenient = (judge_messages("q", "g", "a", prompting)[0]["content"] for prompting in ("strict", "lenient"))
    assert "generous" in lenient
    assert "generous" not in strict


def test_an_endpoint_that_fails_says_so():
    with pytest.raises(ModelUnavailable, match=r"status 401.*last pair of system and conversation that it finished"):
        judge(stub([401]), "q", "g", "a")
    with pytest.raises(ModelUnavailable, match="no chat completion"):
        judge(stub([b"<html>"]), "q", "g", "a")


def test_an_endpoint_that_is_busy_is_asked_again():
    assert judge(stub([429, '{"label": "CORRECT"}']), "q", "g", "a").right is True


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://127.0.0.1:9/v1", "sk-hunter2\r"),
        ("http://127.0.0.1:9/v1", "sk-hunter2-ключ"),
        ("https://ana:hunter2@judge.test/v1", ""),
        ("http://[::1", ""),
        ("judge.test/v1", ""),
        ("http://judge.test/v1", "sk-hunter2"),
    ],
)
def test_a_url_or_key_that_cannot_serve_is_refused_before_anything_is_sent_and_not_quoted(url, key):
    with pytest.raises(InvalidConfig) as caught:
        endpoint(url, "small", key)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(JudgeConfig("https://judge.test/v1", "m", "sk-hunter2"))


def test_agreement_is_of_the_rows_that_could_be_read(tmp_path, monkeypatch):
    path = tmp_path / "labels.jsonl"
    rows = [{"question": "q", "gold": "g", "answer": "a", "label": label} for label in (True, True, False, False)]
    path.write_text("\n".join(map(json.dumps, rows)))
    right, wrong = '{"label": "CORRECT"}', '{"label": "WRONG"}'
    found = agreement(path, stub(["hm", "hm", right, wrong, right]))
    assert (found["agreement"], found["unreadable_share"]) == (pytest.approx(2 / 3), 0.25)
    assert found["kappa"] == pytest.approx(0.4)  # by chance: (2 · 1 + 1 · 2) / 9 of three
    monkeypatch.setattr("memkit_train.rewards.judge.endpoint", lambda *_, **__: stub(["hm"] * 8))
    args = ["judge-agreement", str(path), "--judge-url", "http://judge.test", "--judge-model", "small"]
    printed = json.loads(CliRunner().invoke(app, [*args, "--json"]).stdout)
    assert (printed["agreement"], printed["kappa"], printed["unreadable_share"]) == (None, None, 1.0)
    assert "kappa            nan" in CliRunner().invoke(app, args).stdout


def test_agreement_with_labels(tmp_path):
    path = tmp_path / "labels.jsonl"
    rows = [{"question": "q", "gold": "g", "answer": "a", "label": label} for label in (True, True, False, False)]
    path.write_text("\n".join(map(json.dumps, rows)))
    right, wrong = '{"label": "CORRECT"}', '{"label": "WRONG"}'
    found = agreement(path, stub([right, wrong, wrong, wrong]))
    assert found["agreement"] == 0.75
    assert found["person_only"] == 1
    assert found["kappa"] == pytest.approx(0.5)
    path.write_text(json.dumps(rows[0] | {"label": "yes"}))
    with pytest.raises(InvalidInput, match="line 1"):
        agreement(path, stub([right]))
