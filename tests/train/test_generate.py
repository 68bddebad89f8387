"""Writing with a model of either family: what it was trained on, and the same text every time.

torch is imported inside, so that the default tests are collected without it.
"""

import dataclasses
import hashlib
import itertools

import pytest

from headway.model.block import blocks, shared
from headway.model.spec import PRESETS

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("one_thread")]


def _weights(spec):
    import torch

    found = {}
    for parameter in [*(p for block in blocks(spec) for p in block.parameters), *shared(spec)]:
        key = int.from_bytes(hashlib.sha256(parameter.name.encode()).digest()[:4], "little")
        found[parameter.name] = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(key)) * 0.1
    return found


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("preset", ["gpt-tiny", "llama-tiny"])
def test_a_model_writes_the_same_every_time_and_drops_nothing(preset, tied):
    from headway.train.generate import generate

    spec = dataclasses.replace(PRESETS[preset], tied=tied)
    dropping = dataclasses.replace(spec, hidden_dropout=0.5, attention_dropout=0.5)
    weights = _weights(spec)

    def written(model):
        tokens = generate(model, weights, list(b"def "), context=8, temperature=0.8, seed=3)
        return list(itertools.islice(tokens, 12))

    assert len(set(written(spec))) > 1
    assert written(spec) == written(spec) == written(dropping)


def test_weights_of_a_llama_lie_in_a_file_by_their_own_names_and_shapes_and_are_read_back(tmp_path, plan_of):
    import torch
    from safetensors import safe_open

    from headway.train.weights import read, write

    plan = plan_of(model="llama-tiny")
    weights = _weights(plan.model)
    write(tmp_path / "model.safetensors", weights, plan)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata() | {"format": "pt", "family": "llama", "key_value_heads": "2"} == file.metadata()
        assert set(file.keys()) == set(weights)
        assert torch.equal(file.get_tensor("layers.0.attention.k.weight"), weights["layers.0.attention.k.weight"])
    trained = read(tmp_path / "model.safetensors")
    assert trained.spec == plan.model
    assert all(torch.equal(tensor, weights[name]) for name, tensor in trained.tensors.items())
