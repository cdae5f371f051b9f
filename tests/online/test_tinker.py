"""A service that speaks Tinker's API, by memkit's command: what it samples teaches what memkit's own engine would have
learned from it, and what fails there loses nothing here."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from memkit.backbones.hf import adapters
from memkit.errors import (
    IncompatibleBase,
    InvalidConfig,
    MemkitError,
    MissingExtra,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
)
from memkit_train.errors import WrongParent, WrongVocabulary
from memkit_train.files.run_folder import RunFolder
from memkit_train.learn import lora
from memkit_train.rl.engines.frozen import Scorer
from memkit_train.rl.engines.tinker import check_replies, list_rates
from memkit_train.rl.engines.tinker_service import (
    KEY,
    STATE,
    URL,
    SampledReply,
    TrainingService,
    open_service,
    read_state,
)
from memkit_train.rl.engines.trl import Drawn
from memkit_train.rl.run import Polished, polish
from memkit_train.rl.settings import TinkerSettings
from tests.fakes.tinker_model import KEY as RIGHT
from tests.fakes.tinker_model import TinkerModel
from tests.online import model, test_trl

pytest.importorskip("tinker", reason="Tinker's SDK is not installed: pip install 'memkit[tinker]'")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # the SDK leaves sockets to the collector

TINKER = {"engine": "tinker", "tinker": {"base_model": "tiny", "timeout": 30}}


def run(
    service: TinkerModel,
    folder: Path,
    parent: Path | None = None,
    key: str = RIGHT,
    base: Path | None = None,
    **more: Any,
) -> Polished:
    with patch.dict("os.environ", {URL: service.url, KEY: key}):
        return polish(
            base or service.base,
            test_trl.TALKS,
            test_trl.HELD,
            folder,
            settings=test_trl.chosen(**{**TINKER, **more}),
            parent=parent,
            episodes=test_trl.WORLD,
            spec=model.SPEC,
        )


def compare(base: Path, folder: Path) -> tuple[float, float, float]:
    """How far advantages and adapter are from memkit's own, and how far the adapter has come."""
    torch.set_num_threads(1)
    seen, score = test_trl.Seen(), Scorer.advantages

    def scored(self: Scorer, drawn: Sequence[Drawn]) -> list[float | None]:
        seen.places = self.places
        seen.drawn.append(list(drawn))
        return score(self, drawn)

    with TinkerModel(base) as service, patch.object(Scorer, "advantages", scored):
        assert run(service, folder / "there").generated == sum(map(len, seen.drawn))
    ours, rows = test_trl.learn_here(base, folder / "here", seen)
    theirs = load_file(folder / "there" / "stage-1" / "checkpoints" / "checkpoint-2" / adapters.WEIGHTS)
    named = {name.replace(".default", ""): tensor for name, tensor in ours.items()}
    assert named.keys() == theirs.keys()
    gap = max((named[name] - theirs[name]).abs().max().item() for name in named)
    far = 0.0
    for (_, data), step in zip(service.received, rows, strict=True):
        found, wanted = _taught(data), sorted((list(row.completion_ids), row.advantage) for row in step)
        assert [ids for ids, _ in found] == [ids for ids, _ in wanted]
        far = max(far, *(abs(a[1] - b[1]) for a, b in zip(found, wanted, strict=True)))  # type: ignore[operator]
    return far, gap, max(tensor.abs().max().item() for name, tensor in named.items() if "lora_B" in name)


def _taught(data: Sequence[dict[str, torch.Tensor]]) -> list[tuple[list[int], float]]:
    """What arrived: replies, and their advantages before they became shares of a mean."""
    said = [one["advantages"] != 0 for one in data]
    tokens = sum(int(one.sum()) for one in said)
    return sorted(
        (one["target_tokens"][mask].tolist(), one["advantages"][-1].item() * tokens)
        for one, mask in zip(data, said, strict=True)
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield test_trl.speaking("llama3", tmp_path_factory.mktemp("tinker") / "base")
    gc.collect()  # the SDK's clients close when they are collected: not in the middle of something else


def test_the_same_samples_teach_the_same(base: Path, tmp_path: Path) -> None:
    far, gap, moved = compare(base, tmp_path)
    assert far <= 1e-5
    assert gap <= 1e-4 < 1e-3 < moved


@pytest.mark.slow
def test_the_next_stage_goes_on_from_what_the_service_keeps(base: Path, tmp_path: Path) -> None:
    """Whatever it calls its tensors: what comes back is an adapter that memkit serves, and knows where it is from."""
    with TinkerModel(base, saves_names=lambda name: name.removeprefix("base_model.model.")) as service:
        done = run(service, tmp_path / "run", stages=[{"steps": 1}, {"steps": 1}])
        state = read_state(done.adapter)
        assert "/weights/memkit-" in state
        config, tensors = adapters.read(done.adapter)
        assert config.r == model.SPEC.r
        first = load_file(tmp_path / "run" / "stage-1" / "best" / adapters.WEIGHTS)
        second = load_file(tmp_path / "run" / "stage-2" / "checkpoints" / "checkpoint-0" / adapters.WEIGHTS)
        assert all(torch.equal(first[name], second[name]) for name in tensors)
        before = len(service.rates)
        run(service, tmp_path / "later", parent=done.adapter, stages=[{"steps": 1}])
        assert len(service.rates) == before + 1
        assert RIGHT.encode() not in b"".join(service.bodies)
        service.alpha = 32
        with pytest.raises(InvalidConfig, match="lora_alpha=32"):
            run(service, tmp_path / "wider", parent=done.adapter)
    assert not [file for file in tmp_path.rglob("*.json*") if RIGHT in file.read_text()]


@pytest.mark.slow
def test_rows_that_are_used_twice_are_bounded_by_the_services_ppo(base: Path, tmp_path: Path) -> None:
    with TinkerModel(base, tells_loss=False) as service:
        assert run(service, tmp_path, iterations=2).generated == 24
        assert not any("loss" in told for told in RunFolder(tmp_path, {}).metrics())
        assert [loss for loss, _ in service.received] == ["ppo", "ppo"]
        first, second = (_taught(data) for _, data in service.received)
        assert first == second
        adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "grad_clip_norm": 1.0}
        assert service.rates == [{"learning_rate": rate, **adam} for rate in (0.01, 0.005)]
    refused = pytest.raises(ModelRefused, match="refuses a step of ppo.*the loss ppo is not offered")  # noqa: RUF043
    with TinkerModel(base, losses=frozenset({"importance_sampling"})) as service, refused:
        run(service, tmp_path / "refused", iterations=2)


def test_a_schedule_is_that_of_the_other_engines() -> None:
    rates = list_rates(test_trl.chosen(lr=1.0, schedule="linear"), 10**6, 4)
    assert rates == [1.0, 0.75, 0.5, 0.25]
    usual = list_rates(test_trl.chosen(lr=None, schedule="constant"), 8 * 10**9, 100)
    assert usual[-1] == 1e-5


@pytest.mark.slow
def test_a_service_that_dies_leaves_the_best_there_was_though_it_stays_dead(base: Path, tmp_path: Path) -> None:
    with TinkerModel(base, steps_until_death=3) as service:
        told = {"base_model": "tiny", "timeout": 3}
        with pytest.raises(ModelTimeout, match="begins anew, the best of it so far is in") as caught:
            run(service, tmp_path, stages=[{"steps": 4}], tinker=told)
    assert "stage-1/best" in str(caught.value)
    with pytest.raises(ModelTimeout, match=URL):
        run(service, tmp_path, stages=[{"steps": 4}], tinker={"base_model": "tiny", "timeout": 1})
    best = tmp_path / "stage-1" / "best"
    before = lora.digest_of(best)
    for another, error in (
        (TinkerModel(base, loses_files=True), ModelUnavailable),
        (TinkerModel(base, alpha=32), InvalidConfig),
    ):
        with another, pytest.raises(error):
            run(another, tmp_path, stages=[{"steps": 4}], tinker=told)
        assert lora.digest_of(best) == before
    adapters.read(best)


def _without(name: str) -> Any:
    return patch.dict(sys.modules, {name: None})


@pytest.mark.parametrize(
    ("key", "said"),
    [("tml-another", "Unauthorized"), ("another", "tml-"), ("tml-\n", "not a usable key")],
)
def test_a_wrong_key_is_told_without_saying_it(key: str, said: str, base: Path, tmp_path: Path) -> None:
    with TinkerModel(base) as service, pytest.raises((ModelRefused, InvalidConfig), match=said) as caught:
        run(service, tmp_path, key=key)
    assert key not in str(caught.value) or key == "another"
    assert KEY in str(caught.value)


def test_a_key_that_is_not_in_the_environment_is_not_looked_for(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setenv("TINKER_CREDENTIAL_CMD", f"echo {RIGHT}")
    with TinkerModel(base) as service:
        monkeypatch.setenv(URL, service.url)
        with (
            pytest.raises(InvalidConfig, match=f"{KEY} is not set"),
            open_service(TinkerSettings(), "tiny", None, model.SPEC, seed=0),
        ):
            ...
        assert not service.bodies


def test_a_long_reason_is_cut_after_the_key_is_taken_out() -> None:
    def fail() -> None:
        error = RuntimeError("x" * 290 + RIGHT)
        error.status_code = None  # type: ignore[attr-defined]
        raise error

    service = TrainingService(None, None, SimpleNamespace(save_weights_and_get_sampling_client=fail), 1.0)
    with patch.dict("os.environ", {KEY: RIGHT}), pytest.raises(ModelUnavailable, match=r"x\*\*\*") as caught:
        service.publish()
    assert RIGHT[:4] not in str(caught.value)


def test_without_the_sdk_it_says_what_to_install(base: Path, tmp_path: Path) -> None:
    with TinkerModel(base) as service, _without("tinker"), pytest.raises(MissingExtra, match=r"memkit\[tinker\]"):
        run(service, tmp_path)


def _with_a_parent(service: TinkerModel, folder: Path, state: str | None = None) -> None:
    from memkit.backbones.hf import checkpoint

    loaded = checkpoint.load(service.base, dtype="float32", device="cpu")
    lora.save(lora.attach(loaded.model, model.SPEC), folder / "elsewhere")
    if state is not None:
        weights = folder / "elsewhere" / adapters.WEIGHTS
        save_file(load_file(weights), weights, {"format": "pt", STATE: state})
    run(service, folder / "run", parent=folder / "elsewhere")


@pytest.mark.parametrize(
    ("do", "error", "said"),
    [
        (_with_a_parent, WrongParent, "takes no weights from outside"),
        (
            lambda service, folder: _with_a_parent(service, folder, "tinker://run-9/weights/gone"),
            ModelRefused,
            "refuses loading tinker://run-9/weights/gone.*30 days.*model.parent=base",
        ),
        (lambda service, folder: run(service, folder, tinker={"base_model": "huge"}), ModelRefused, "called huge"),
        (lambda service, folder: run(service, folder, tinker={}), InvalidConfig, "online.tinker.base_model"),
    ],
)
def test_what_the_service_cannot_do_is_said_before_anything_is_sampled(
    do: Callable[[TinkerModel, Path], object], error: type[MemkitError], said: str, base: Path, tmp_path: Path
) -> None:
    with TinkerModel(base) as service:
        with pytest.raises(error, match=said):
            do(service, tmp_path)
        assert not service.received


def test_a_service_that_runs_another_model_teaches_nothing(base: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(base, tmp_path / "other"))
    tensors = load_file(other / "model.safetensors")
    tensors["model.norm.weight"] *= 0.1
    save_file(tensors, other / "model.safetensors", {"format": "pt"})
    with TinkerModel(other) as service:
        with pytest.raises(IncompatibleBase, match="of the same replies differ"):
            run(service, tmp_path / "run", base=base, states=1, group=2)
        assert not service.received


def test_replies_without_their_end_are_refused() -> None:
    whole, cut = SampledReply((5, 2), (-1.0, -1.0), True), SampledReply((5, 5), (-1.0, -1.0), False)
    check_replies([whole, cut], 6, frozenset({2}))
    with pytest.raises(ModelRefused, match="leaves out the token that ends a reply"):
        check_replies([SampledReply((5,), (-1.0,), True)], 6, frozenset({2}))
    with pytest.raises(WrongVocabulary, match="token 5, this model has 5"):
        check_replies([whole], 5, frozenset({2}))


def test_a_download_that_fails_keeps_its_address_to_itself(base: Path, tmp_path: Path) -> None:
    failed = pytest.raises(ModelUnavailable, match="store answered 403")
    with TinkerModel(base, loses_files=True) as service, failed as caught:
        run(service, tmp_path)
    assert "signed" not in str(caught.value)


def test_another_alpha_is_refused(base: Path, tmp_path: Path) -> None:
    with TinkerModel(base, alpha=32) as service, pytest.raises(InvalidConfig, match="lora_alpha=32"):
        run(service, tmp_path)


def test_options_of_one_engine_are_not_for_another() -> None:
    with pytest.raises(ValidationError, match="is for engine: tinker"):
        test_trl.chosen(tinker={"base_model": "tiny"})
    with pytest.raises(ValidationError, match="engine: tinker needs algorithm: grpo"):
        test_trl.chosen(**TINKER, algorithm="ppo")
