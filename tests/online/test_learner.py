"""The engine decodes with the very weights that the trainer changes."""

from __future__ import annotations

import pytest
import torch

from memkit.errors import InvalidConfig
from memkit.roles import Fact, Manager
from memkit.seams.backbone import GenReply, GenRequest, Sampling
from memkit_train.learn import lora
from memkit_train.rl.learner import learner
from tests.online import model


def logprobs(of, reply: GenReply) -> torch.Tensor:  # type: ignore[no-untyped-def]
    assert reply.prompt_ids
    assert reply.token_ids
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    with torch.no_grad():
        every = torch.log_softmax(of(input_ids=ids).logits[0].float(), -1)
    start = len(reply.prompt_ids) - 1
    return torch.stack([every[start + at, token] for at, token in enumerate(reply.token_ids)])


def test_behaviour_log_probs_are_the_trainers_own_before_and_after_a_change() -> None:
    prompt = Manager().render(Fact("Ana lives in Oslo."), [])
    with learner(model.base(), None, model.SPEC, seed=1) as one:
        first = one.name
        seen = []
        for change in (0.0, 0.3):
            with torch.no_grad():
                for number, tensor in enumerate(lora.trainable(one.model).values()):
                    tensor += change * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(number))
            name = one.publish()
            asked = [GenRequest(prompt, str(key), name, Sampling(temperature=1.0)) for key in range(6)]
            replies = one.engine.generate(asked)
            seen.append([reply.logprobs for reply in replies])
            for reply in replies:
                assert reply.logprobs
                assert torch.allclose(torch.tensor(reply.logprobs), logprobs(one.model, reply), atol=1e-5)
        assert seen[0] != seen[1]
        assert first not in one.engine.resident()
        with pytest.raises(InvalidConfig, match="name of their own"):
            one.engine.serve(name, one.tree)
        with pytest.raises(InvalidConfig, match="being trained"):
            one.engine.merge_adapter(name)
        (base,) = one.engine.generate([GenRequest(prompt, "base")])
        with one.model.disable_adapter():
            assert torch.allclose(torch.tensor(base.logprobs), logprobs(one.model, base), atol=1e-5)
