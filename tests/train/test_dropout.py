"""Masks: what chance they have, that they are functions of their place alone, and that a part of one is its part.

torch is imported inside, so that the default tests are collected without it.
"""

import pytest

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("one_thread")]

N = 2**20
# the first outputs of SplitMix64 seeded with 1234567, as its ports publish them to be checked against
OUTPUTS = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)


def _mask(step=0, microbatch=0, site="layers.0.attention", rate=0.1, seed=0, shape=(N,), part=None):
    import torch

    from headway.train.dropout import Draw, keep

    return keep(Draw(seed, step, microbatch).key(site), rate, shape, torch.device("cpu"), part)


def _correlation(a, b):
    return ((a.double() - a.double().mean()) * (b.double() - b.double().mean())).mean() / (
        a.double().std() * b.double().std()
    )


@pytest.mark.parametrize("rate", [0.05, 0.17, 0.2, 0.3, 0.5, 0.6, 0.9])
def test_an_element_is_kept_if_its_half_of_splitmix64s_output_is_not_below_the_rate(rate):
    import torch

    from headway.train.dropout import keep

    kept = keep(1234567, rate, (9,), torch.device("cpu")).tolist()
    halves = [half for output in OUTPUTS for half in (output % 2**32, output >> 32)]
    assert kept == [(half + 2**31) % 2**32 >= int(rate * 2**32) for half in halves[:9]]


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.9, 0.999])
def test_the_share_of_dropped_elements_is_the_rate_within_four_deviations(rate):
    dropped = 1 - _mask(rate=rate).double().mean().item()
    assert dropped == pytest.approx(rate, abs=4 * (rate * (1 - rate) / N) ** 0.5)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_counts_of_runs_vary_as_independent_draws_do(rate):
    """The variance of 1024 counts of 1024 draws is that of the binomial distribution within four of its deviations."""
    variance = _mask(rate=rate).view(1024, 1024).double().sum(1).var().item()
    assert variance == pytest.approx(1024 * rate * (1 - rate), rel=4 * (2 / 1023) ** 0.5)


@pytest.mark.parametrize(
    "other",
    [
        {"step": 1},
        {"microbatch": 1},
        {"seed": 1},
        {"site": "layers.1.attention"},
        {"site": "layers.0.feed_forward"},
        {"site": "layers.0.attention.probabilities"},
        {"step": 1000, "microbatch": 7},
    ],
    ids=str,
)
def test_masks_of_neighbouring_places_are_uncorrelated(other):
    assert abs(_correlation(_mask(), _mask(**other)).item()) < 4 / N**0.5


@pytest.mark.parametrize("lag", [1, 2, 8, 64, 128, 1024, 4096])
def test_neighbouring_elements_of_a_mask_are_uncorrelated(lag):
    mask = _mask()
    assert abs(_correlation(mask[lag:], mask[:-lag]).item()) < 4 / N**0.5


def test_a_mask_is_the_same_whatever_was_drawn_before():
    import torch

    first = _mask()
    torch.rand(17)
    torch.manual_seed(5)
    assert torch.equal(first, _mask())


def test_a_shape_only_names_the_elements():
    import torch

    assert torch.equal(_mask(shape=(6, 4)).flatten(), _mask(shape=(24,)))


@pytest.mark.parametrize(
    "part",
    [
        (slice(0, 3), slice(0, 4), slice(0, 5), slice(0, 6)),
        (slice(1, 2), slice(0, 4), slice(0, 5), slice(0, 6)),
        (slice(0, 3), slice(2, 4), slice(0, 5), slice(0, 6)),
        (slice(1, 3), slice(1, 2), slice(4, 5), slice(2, 6)),
    ],
    ids=str,
)
def test_a_rank_that_holds_a_part_draws_the_part_of_the_mask(part):
    import torch

    shape = (3, 4, 5, 6)
    assert torch.equal(_mask(shape=shape, rate=0.5)[part], _mask(shape=shape, rate=0.5, part=part))


def test_what_is_kept_is_scaled_so_that_its_mean_stays():
    import torch

    from headway.train.dropout import Draw, dropout

    x = torch.rand(N, dtype=torch.float64) + 1
    y = dropout(x, 0.2, Draw(0, 0, 0), "site")
    kept = y != 0
    assert torch.equal(y[kept], x[kept] * (1 / 0.8))
    assert torch.equal(kept, _mask(site="site", rate=0.2))
    assert y.mean().item() == pytest.approx(x.mean().item(), abs=4 * (0.2 / 0.8 * 2.4 / N) ** 0.5)


def test_without_a_draw_or_a_rate_nothing_is_done():
    import torch

    from headway.train.dropout import Draw, dropout

    x = torch.rand(3)
    assert dropout(x, 0.5, None, "site") is x
    assert dropout(x, 0.0, Draw(0, 0, 0), "site") is x


def test_the_backward_drops_what_the_forward_dropped_and_nothing_was_kept_for_it():
    import torch

    from headway.train.dropout import Draw, dropout

    kept = []
    x = torch.rand(64, dtype=torch.float64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda _: None):
        y = dropout(x, 0.5, Draw(0, 3, 1), "site")
    y.backward(torch.ones_like(y))
    assert kept == []
    assert torch.equal(x.grad != 0, y != 0)
    assert torch.autograd.gradcheck(lambda x: dropout(x, 0.5, Draw(0, 3, 1), "site"), (x,))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_ranks_that_have_parts_of_a_tensor_drop_as_one_that_has_all_of_it(dim, count):
    """Of attention probabilities tensor ranks have heads, of a cut residual stream they have tokens."""
    import torch

    from headway.train.dropout import Cut, apply

    x = torch.rand(6, 6, 6, dtype=torch.float64) + 1
    parts = [apply(part.contiguous(), 0.3, 17, Cut(dim, i, count)) for i, part in enumerate(x.chunk(count, dim))]
    assert torch.equal(torch.cat(parts, dim), apply(x, 0.3, 17))
    assert not torch.equal(*(part == 0 for part in parts[:2]))
