"""Steps of the tensor axis by themselves: the loss of a cut vocabulary, and which ranks drop the same."""

import json
from pathlib import Path

import pytest

from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist
# ranks of tensor 2 × data 2: neighbours share every layer, 0 and 2 (1 and 3) are replicas
TENSOR_PAIRS, DATA_PAIRS = ((0, 1), (2, 3)), ((0, 2), (1, 3))
# what a step of one micro-batch masks, going forward: embedding, then of each of two layers
SITES = ("residual", *("probabilities", "residual", "residual") * 2)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("tensor") / "out.json"
    run_ranks(Path(__file__).with_name("play_tensor.py"), [str(out)], 4, timeout=120)
    return json.loads(out.read_text())


@pytest.mark.parametrize("ranks", ["alone", "over 2", "over 4"])
def test_the_loss_of_smoothed_labels_over_a_cut_vocabulary_is_torchs_with_its_gradients(played, ranks):
    """Smoothings of 0, 0.1 and 0.9, vocabularies of 97, 96 and 5, every fifth target ignored, in float64."""
    for rank in played:
        for found in rank["losses"][ranks]:
            assert found["loss"] <= 1e-12
            assert found["gradient"] <= 1e-12
            assert found["padding"] == 0
    assert all(max(each["largest"] for each in rank["losses"][ranks]) > 0.1 for rank in played)


def _masks(played, rank, sequence, site):
    """All masks of a kind of site, over steps, micro-batches and layers, each with its shape."""
    passes = played[rank]["masks"][sequence]["forward"]
    return [str(mask) for each in passes for kind, mask in zip(SITES, each, strict=True) if kind == site]


def _alike(pairs, played, *where):
    """For each pair of ranks and each mask whether both dropped the same."""
    return [
        one == other
        for a, b in pairs
        for one, other in zip(_masks(played, a, *where), _masks(played, b, *where), strict=True)
    ]


def test_tensor_ranks_drop_the_same_of_a_residual_stream_that_all_have_whole(played):
    assert set(_alike(TENSOR_PAIRS, played, "whole", "residual")) == {True}


def test_tensor_ranks_drop_differently_where_the_sequence_is_cut(played):
    assert set(_alike(TENSOR_PAIRS, played, "cut", "residual")) == {False}


@pytest.mark.parametrize("sequence", ["whole", "cut"])
def test_tensor_ranks_drop_different_probabilities_as_their_heads_are_different(played, sequence):
    assert set(_alike(TENSOR_PAIRS, played, sequence, "probabilities")) == {False}


@pytest.mark.parametrize("sequence", ["whole", "cut"])
@pytest.mark.parametrize("site", ["residual", "probabilities"])
def test_data_ranks_drop_differently(played, sequence, site):
    assert set(_alike(DATA_PAIRS, played, sequence, site)) == {False}


@pytest.mark.parametrize("sequence", ["whole", "cut"])
@pytest.mark.parametrize("site", ["residual", "probabilities"])
def test_a_rank_never_drops_the_same_twice(played, sequence, site):
    for rank in range(4):
        masks = _masks(played, rank, sequence, site)
        assert len(set(masks)) == len(masks) == 2 * 2 * SITES.count(site)


@pytest.mark.parametrize("sequence", ["whole", "cut"])
def test_the_backward_of_each_micro_batch_draws_the_masks_of_its_forward_again(played, sequence):
    for rank in played:
        both = (rank["masks"][sequence][direction] for direction in ("forward", "backward"))
        for forward, backward in zip(*both, strict=True):
            assert set(map(str, backward)) == set(map(str, forward))


def test_masks_are_of_a_ranks_heads_and_of_its_tokens(played):
    shapes = {
        (sequence, kind): tuple(mask[0])
        for sequence in ("whole", "cut")
        for kind, mask in zip(SITES, played[0]["masks"][sequence]["forward"][0], strict=True)
    }
    assert shapes == {
        ("whole", "residual"): (2, 16, 32),
        ("cut", "residual"): (2, 8, 32),
        ("whole", "probabilities"): (2, 2, 16, 16),
        ("cut", "probabilities"): (2, 2, 16, 16),
    }
