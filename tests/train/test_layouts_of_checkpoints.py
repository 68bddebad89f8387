"""A checkpoint of one layout is gone on with under others, and by each saved again: one launch plays a chain."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.train.cases import Case
from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist
BATCH, MICROBATCH = 24, 2
# tensor, pipeline, data, chunks, ZeRO's stage; the rows of a vocabulary of 97 are padded over 2 and 4 tensor ranks
CHAINS = {
    "gpt": [(2, 2, 1, 1, 0), (1, 2, 2, 1, 1), (4, 1, 1, 1, 0), (1, 1, 4, 1, 3), (1, 1, 3, 1, 2)],
    "llama": [(1, 2, 2, 2, 3), (2, 1, 1, 1, 0)],
}
LLAMA = {"key_value_heads": 4, "tied": False, "unit_bytes": 10**6, "sequence_parallel": False}
DROPPED = {"hidden_dropout": 0.1}


def _case(model, layout):
    tensor, pipeline, data, chunks, zero = layout
    schedule = "interleaved" if chunks > 1 else "1f1b"
    microbatches = BATCH // (MICROBATCH * data)
    more = LLAMA if model == "llama" else DROPPED | {"sequence_parallel": tensor > 1}
    sizes = {"tensor": tensor, "layers": 2, "vocabulary": 97, "zero": zero}
    return Case(pipeline, chunks, data, schedule, microbatches, **sizes, **more)


@pytest.fixture(scope="module", params=[pytest.param("gpt", marks=pytest.mark.full), "llama"])
def played(request, tmp_path_factory):
    """For each layout of a chain, what was found."""
    folder = tmp_path_factory.mktemp("chains")
    layouts = CHAINS[request.param]
    cases = [asdict(_case(request.param, layout)) for layout in layouts]
    (folder / "cases.json").write_text(json.dumps([cases]))
    words = [str(folder / name) for name in ("cases.json", "chains", "out.json")]
    run_ranks(Path(__file__).parent / "play_checkpoints.py", words, 4, timeout=240)
    return {layouts[number]: result for _, number, result in json.loads((folder / "out.json").read_text())}


def test_weights_and_both_moments_are_the_same_to_the_bit_under_every_layout(played):
    """Megatron-LM #1517 and others: moments that another layout lost, silently."""
    assert tuple(played) in map(tuple, CHAINS.values())
    for layout, each in played.items():
        assert each["names"], layout
        assert each["read equals held"], layout
        assert each["held equals first"], layout
        assert each["moments are none of zeros"], layout
        assert each["updates"] == 3, layout


def test_the_next_five_losses_are_those_of_the_run_that_was_not_interrupted(played):
    first, *others = played.values()
    assert first["resumed"] is None
    assert len(first["losses"]) == 8
    for each in others:
        assert each["resumed"] == 3
        assert each["losses"] == pytest.approx(first["losses"][3:], abs=1e-10, rel=0)
