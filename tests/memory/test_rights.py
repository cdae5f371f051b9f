"""Spaces: who may do what there, by which grants, and until when."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit import AsyncMemory, Memory, Message
from memkit.errors import Conflict, InvalidInput, InvalidScope, NotAllowed, NotFound
from memkit.models import OpDraft
from memkit.user import _SCOPED  # pyright: ignore[reportPrivateUsage]
from tests.bench._rights_world import PEOPLE, SPACES, STEPS, StandingClock, Step, World

SPACE_ID = "\x1dteam-a"


def test_a_space_is_read_by_whom_a_grant_names_and_by_nobody_else(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.add("We deploy on Fridays.")
        team.grant("read", to="ben")
        ben = memory.principal("ben").space("team-a")
        assert "We deploy on Fridays." in ben.context("When do we deploy?")
        for refused in (
            lambda: ben.add("We deploy on Mondays."),
            lambda: ben.grant("read", to="eve"),
            lambda: memory.principal("eve").space("team-a").search("deploy"),
            lambda: memory.principal("eve").space("nowhere").search("deploy"),
        ):
            with pytest.raises(NotAllowed):
                refused()
        team.revoke("read", to="ben")
        with pytest.raises(NotAllowed):
            ben.search("deploy")


def test_no_verb_reaches_a_space_by_an_id(tmp_path: Path) -> None:
    """Whatever plug or command passes it on: all of them go through the verbs."""
    given: dict[str, Any] = {"learn": {"task": "t", "outcome": True}, "feedback": {"reward": 1.0}, "undo": {"since": 1}}
    with Memory(tmp_path / "s", model=lambda messages: "{}") as memory:
        memory.principal("ana").create_space("team-a").add("We deploy on Fridays.", infer=False)
        for user_id in (SPACE_ID, SPACE_ID[0]):
            for name in sorted({*_SCOPED, "trainable", "bank", "principal", "user"}):
                verb, args = getattr(memory, name), [tmp_path / "out"] if name == "export" else ["x", "y"]
                takes = [
                    one for one in inspect.signature(verb).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD
                ]
                named = [one.name for one in takes]
                rest = args[: len([one for one in named if one != "user_id"])]
                with pytest.raises(InvalidScope):
                    verb(*rest, user_id=user_id, **given.get(name, {}))
        assert memory.users() == []
        assert memory.views.people() == []


def test_a_grant_lasts_until_its_time_and_passes_on_no_more_than_was_given(tmp_path: Path) -> None:
    clock = StandingClock()
    soon = clock.at + timedelta(hours=1)
    with Memory(tmp_path / "s", clock=clock) as memory:
        team = memory.principal("ana").create_space("team-a")
        team.grant("read", "share", to="ben", until=soon)
        ben = memory.principal("ben").space("team-a")
        ben.grant("read", to="carl", until=soon)
        with pytest.raises(NotAllowed):
            ben.grant("read", to="carl")
        with pytest.raises(NotAllowed):
            ben.grant("write", to="carl", until=soon)
        clock.at = soon
        for who in ("ben", "carl"):
            with pytest.raises(NotAllowed):
                memory.principal(who).space("team-a").search("deploy")


def test_a_role_is_what_the_app_says_of_the_caller(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.principal("ana").create_space("team-a").grant("read", role="legal")
        assert memory.principal("ben", roles=["legal"]).space("team-a").list() == []
        with pytest.raises(NotAllowed):
            memory.principal("legal").space("team-a").list()
        with pytest.raises(InvalidInput):
            memory.principal("ben", roles="legal")


def test_the_last_one_who_may_share_stays(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.grant("share", to="ben", until=datetime.now(UTC) + timedelta(days=1))
        with pytest.raises(Conflict):
            team.revoke(to="ana")
        team.grant("share", to="ben")
        team.revoke(to="ana")
        with pytest.raises(NotAllowed):
            team.list()
        with pytest.raises(Conflict):
            memory.principal("ana").create_space("team-a")


def test_one_reads_ones_own_memories_beside_those_of_several_spaces(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        for name, text in (("a", "The printer code is 4711."), ("b", "The gate code is 1290."), ("c", "Secret 88.")):
            space = memory.principal("ana").create_space(name)
            space.add(text)
            if name != "c":
                space.grant("read", to="ben")
        memory.add("My locker code is 5566.", user_id="ben")
        ben = memory.principal("ben")
        block = ben.context("Which code?")
        assert [code for code in ("4711", "1290", "5566", "88") if code in block] == ["4711", "1290", "5566"]
        only = ben.context("Which code?", spaces=["b"])
        assert [code for code in ("4711", "1290", "5566") if code in only] == ["1290"]
        assert block.trace_id == ""
        with pytest.raises(NotAllowed):
            ben.search("Which code?", spaces=["a", "c"])


def test_who_said_it_goes_with_it_whatever_the_caller_claims(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", redact="all") as memory:
        ana = memory.principal("ana@example.com")
        team = ana.create_space("team-a")
        added = team.add("We deploy on Fridays.", metadata={"by": "ben", "tags": ["ops"]}, infer=False)
        (record,) = team.list(filters={"metadata.tags": {"$contains": "ops"}})
        assert record.id == added.ops[0].memory_id
        assert record.metadata["by"] == "ana@example.com"
        assert team.list(filters={"metadata.tags": {"$contains": "op"}}) == []
        assert team.update(record.id, metadata={"by": "ben"}).metadata == {"by": "ana@example.com"}


def test_where_several_speak_a_word_without_a_name_is_the_callers(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        told = {"role": "user", "content": "My cat is called Tom."}
        for said in ("My dog is called Rex.", told, [Message("user", "I live in Oslo."), {**told, "name": "carl"}]):
            team.add(said)
        team.add(messages=[{"role": "assistant", "content": "Noted."}])
        assert {one.speaker for one in team.bank().turns()} == {"ana", "carl", ""}
        assert "Ana's dog is called Rex." in [one.text for one in team.list()]


def test_a_bank_of_a_space_is_checked_at_each_call(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.add("We deploy on Fridays.", infer=False)
        (record,) = team.list()
        bank = memory.principal("ben").space("team-a").bank()
        reads = (bank.version, bank.live, bank.ops, bank.turns, lambda: bank.get(record.id), lambda: bank.knows("t"))
        draft = OpDraft("update", record.id, "We deploy on Mondays.", metadata={"by": "ben"}, origin="api")

        def refused(*calls: Any) -> None:
            for call in calls:
                with pytest.raises(NotAllowed):
                    call()

        refused(*reads, lambda: bank.commit([draft], expected_seq=0))
        team.grant("read", to="ben")
        assert [one.text for one in bank.live()] == ["We deploy on Fridays."]
        refused(lambda: bank.commit([draft], expected_seq=bank.version()[0]))
        team.grant("write", to="ben")
        put = OpDraft("add", text="The gate code is 1290.", kind="episode", metadata={"by": "ana"}, origin="api")
        bank.commit([draft, put], expected_seq=bank.version()[0])
        assert [(one.text, one.metadata["by"]) for one in bank.live()] == [
            ("We deploy on Mondays.", "ana"),
            ("The gate code is 1290.", "ben"),
        ]
        team.revoke(to="ben")
        refused(*reads)


def test_a_document_says_who_brought_it_and_goes_with_them(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.grant("write", to="ben")
        memory.principal("ben").space("team-a").add_document("The gate code is 1290.", name="codes.md")
        assert [one.metadata["by"] for one in team.list(kinds=["chunk"])] == ["ben"]
        memory.erase(user_id="ben")
        assert team.list(kinds=["chunk"]) == []


def test_a_space_goes_on_after_a_restart_and_into_an_export(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.add("We deploy on Fridays.")
        team.grant("read", to="ben")
        memory.flush()
        assert memory.doctor() == []
        memory.export(tmp_path / "out.jsonl")
    with Memory(tmp_path / "s") as memory, Memory(tmp_path / "t") as other:
        other.import_(tmp_path / "out.jsonl")
        for store in (memory, other):
            assert "Fridays" in store.principal("ben").context("When do we deploy?")
            with pytest.raises(NotAllowed):
                store.principal("eve").space("team-a").list()


def test_the_awaitable_twin(tmp_path: Path) -> None:
    async def run() -> str:
        async with AsyncMemory(tmp_path / "s") as memory:
            team = await memory.principal("ana").create_space("team-a")
            await team.add("We deploy on Fridays.")
            await team.grant("read", to="ben")
            return await memory.principal("ben").space("team-a").context("When do we deploy?")

    assert "Fridays" in asyncio.run(run())


def test_what_is_promoted_is_a_copy_that_ends_with_what_it_was_taken_from(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        added = memory.add("My dog is called Rex.", user_id="ana")
        fact = memory.list(user_id="ana")[0]
        team = memory.principal("ana").create_space("team-a")
        team.grant("read", "share", to="ben")
        copy = team.promote(fact.id)
        assert (copy.id, copy.text, copy.metadata["by"]) == (team.promote(fact.id).id, fact.text, "ana")
        wide = memory.principal("ben").create_space("company")
        wide.promote(copy.id, space="team-a")
        with pytest.raises(NotAllowed):
            memory.principal("eve").create_space("eve").promote(copy.id, space="team-a")
        assert [hit.memory.source_turns for hit in memory.principal("ben").search("dog")] == [(), ()]
        memory.delete(fact.id, user_id="ana")
        assert "Rex" in wide.context("Which dog?")
        memory.erase(user_id="ana", turn_id=added.turns[0].turn_id)
        assert memory.principal("ben").search("dog") == []
        assert [op for op in team.history() + wide.history() if op.text and "Rex" in op.text] == []


def test_one_may_have_forgotten_what_one_said_and_others_only_by_a_grant(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        team = memory.principal("ana").create_space("team-a")
        team.grant("read", "write", to="ben")
        team.add("The customer is Meridian Air.")
        ben = memory.principal("ben").space("team-a")
        ben.add("My nurse is called Ilse.")
        with pytest.raises(NotAllowed):
            ben.forget(words="Meridian Air")
        team.revoke(to="ben")
        ben.forget(words="nurse is called ilse")
        assert "Ilse" not in team.context("Who is the nurse of ben?")
        team.forget(words="meridian air")
        assert team.search("Who is the customer?") == []
        with pytest.raises(NotFound):
            team.forget(words="Meridian Air")
    left = [path for path in (tmp_path / "s").rglob("*") if path.is_file() and b"Meridian" in path.read_bytes()]
    assert left == []


def test_a_user_who_is_erased_takes_along_what_he_shared_and_leaves_what_he_granted(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("My dog is called Rex.", user_id="ben-77")
        team = memory.principal("ana").create_space("team-a")
        team.grant("read", "write", "share", to="ben-77")
        team.add("We deploy on Fridays.")
        ben = memory.principal("ben-77").space("team-a")
        ben.promote(memory.list(user_id="ben-77")[0].id)
        ben.add("The staging server is heron.")
        ben.grant("read", to="carl")
        alone = memory.principal("ben-77").create_space("alone")
        alone.grant("read", to="carl")
        memory.flush()
        receipt = memory.erase(user_id="ben-77")
        assert (receipt.counts["spaces_nobody_shares"], receipt.counts["in_spaces"] > 2) == (1, True)
        carl = memory.principal("carl")
        assert [hit.text for hit in carl.search("deploy heron dog")] == ["We deploy on Fridays."]
        assert carl.spaces() == ["alone", "team-a"]
        memory.principal("dora").create_space("alone").erase()
        assert carl.spaces() == ["team-a"]
    left = [path for path in (tmp_path / "s").rglob("*") if path.is_file() and b"ben-77" in path.read_bytes()]
    assert left == []


def test_an_erasure_that_was_cut_off_takes_the_copies_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(tmp_path / "s")
    memory.add("My dog is called Rex.", user_id="ben")
    team = memory.principal("ana").create_space("team-a")
    team.grant("write", to="ben")
    memory.principal("ben").space("team-a").promote(memory.list(user_id="ben")[0].id)
    with monkeypatch.context() as cut:
        cut.setattr("memkit.runtime.erasure._erase_one", lambda *of: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.erase(user_id="ben")
    memory.close()
    with Memory(tmp_path / "s") as memory:
        assert memory.users() == []
        assert memory.principal("ana").space("team-a").list() == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    clock = StandingClock()
    with Memory(tmp_path_factory.mktemp("rights") / "s", clock=clock) as memory:
        yield memory, clock, iter(range(1_000_000))


STEP: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(STEPS),
    st.integers(0, PEOPLE - 1),
    st.integers(0, SPACES - 1),
    st.integers(0, 63),
    st.integers(0, 63),
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=5, max_size=40))
def test_whatever_is_granted_and_done_nothing_happens_that_the_rules_do_not_allow(
    shared: Any, steps: list[Step]
) -> None:
    memory, clock, numbers = shared
    world = World(memory, clock, f"h{next(numbers)}", Counter())
    world.play(steps)
    assert world.wrong == []
