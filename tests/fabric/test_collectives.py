"""Collectives: how many bytes groups send between their hosts, from which cards, and along which trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric.collectives import algorithms, double_tree, group, relayed, traffic, volume
from headway.fabric.topologies import named

SIZE = 2.0**20
RAILS = named("hpn segments=2 hosts=8 backup_hosts=0 aggs=2 cores=0 core_links=0")
PLAIN = named("dcn+ segments=2 hosts=8 cores=0 core_links=0")


def _hosts(*hosts, per_host=8):
    """The cards of hosts, host by host."""
    return [8 * host + card for host in hosts for card in range(per_host)]


def _sent(fabric, cards, kind, algorithm):
    """[hosts, hosts]: bytes between hosts, and [G]: bytes that each card sends and receives."""
    found = traffic(fabric, [group(fabric, cards)], kind, algorithm, SIZE)
    each = found.bytes[found.channel]
    matrix = np.zeros((fabric.num_gpus // 8, fabric.num_gpus // 8))
    np.add.at(matrix, (found.source // 8, found.destination // 8), each)
    up, down = (np.bincount(ends, each, fabric.num_gpus) for ends in (found.source, found.destination))
    return matrix, up, down


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("hosts", [2, 3, 5, 16])
def test_a_ring_moves_each_ranks_bytes_once_over_the_cards_of_each_host(kind, hosts):
    """Over n ranks 2(n − 1)/n of the buffer for a sum, half of it for a gather, an eighth by each card."""
    matrix, up, down = _sent(RAILS, _hosts(*range(hosts)), kind, "ring")
    ranks = 8 * hosts
    moved = (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks * SIZE
    assert matrix.sum(axis=1)[:hosts] == pytest.approx([moved] * hosts, rel=1e-12)
    assert matrix.sum(axis=0)[:hosts] == pytest.approx([moved] * hosts, rel=1e-12)
    assert up[:ranks].tolist() == down[:ranks].tolist()
    assert up[:ranks] == pytest.approx([moved / 8] * ranks, rel=1e-12)


def test_a_ring_follows_the_order_of_ranks_and_keeps_to_rails():
    found = traffic(RAILS, [group(RAILS, _hosts(5, 2, 9))], "all_gather", "ring", SIZE)
    ends = {(int(one), int(other)) for one, other in zip(found.source, found.destination, strict=True)}
    assert ends == {(8 * a + c, 8 * b + c) for a, b in ((5, 2), (2, 9), (9, 5)) for c in range(8)}
    assert all(len(set(found.source[found.channel == c] % 8)) == 1 for c in range(8))


def test_hosts_of_a_group_stand_in_the_order_of_their_first_ranks():
    made = group(RAILS, [17, 3, 18, 1, 40])
    assert made.ranks == 5
    assert made.cards.tolist() == [[17], [3], [40]]
    assert (made.hosts, made.channels) == (3, 1)


def test_hosts_with_more_cards_than_others_use_as_many_as_the_one_with_the_fewest():
    """8 + 8 + 4 ranks: 4 channels, which carry 2 · 19/20 of the buffer all the same."""
    matrix, up, _ = _sent(RAILS, [*_hosts(0, 1), 16, 17, 18, 19], "all_reduce", "ring")
    assert matrix.sum(axis=1)[:3] == pytest.approx([2 * 19 / 20 * SIZE] * 3)
    assert np.flatnonzero(up).tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [(kind, each) for kind in ("all_reduce", "all_gather", "all_to_all", "send_recv") for each in algorithms(kind)],
)
def test_one_host_sends_nothing(kind, algorithm):
    found = traffic(RAILS, [group(RAILS, _hosts(3))], kind, algorithm, SIZE)
    assert len(found.source) == 0
    assert found.bytes.sum() == 0


def test_two_hosts_exchange_halves_of_a_sum_both_ways():
    for algorithm, moved in (("ring", 2 * 15 / 16), ("hierarchical", 1.0), ("tree", 1.0)):
        matrix, _, _ = _sent(RAILS, _hosts(0, 1), "all_reduce", algorithm)
        assert matrix[:2, :2].tolist() == [[0, moved * SIZE], [moved * SIZE, 0]]


@pytest.mark.parametrize("hosts", [2, 3, 7, 16])
def test_a_hierarchical_sum_moves_what_a_ring_of_hosts_would(hosts):
    """Members reduce and scatter inside first, so that cards carry 2(h − 1)/h of their eighth."""
    _, up, _ = _sent(RAILS, _hosts(*range(hosts)), "all_reduce", "hierarchical")
    assert up[: 8 * hosts] == pytest.approx([2 * (hosts - 1) / hosts * SIZE / 8] * 8 * hosts)


@pytest.mark.parametrize("count", range(2, 70))
def test_both_trees_span_all_hosts_with_two_children_at_most(count):
    for parents in double_tree(count):
        roots = np.flatnonzero(parents < 0)
        assert len(roots) == 1
        assert np.bincount(parents[parents >= 0]).max() <= 2
        at, depth = np.arange(count), 0
        while (at != roots[0]).any():
            at, depth = np.where(at == roots[0], at, parents[at]), depth + 1
            assert depth <= count.bit_length()


@pytest.mark.parametrize("count", range(2, 70))
def test_leaves_of_one_tree_are_inner_nodes_of_the_other(count):
    """Of an odd number one host is a leaf of both: each tree has one leaf more than inner nodes."""
    leaves = [set(range(count)) - set(parents.tolist()) for parents in double_tree(count)]
    assert len(leaves[0] & leaves[1]) == count % 2


@pytest.mark.parametrize("hosts", [2, 3, 6, 9, 16])
def test_double_trees_carry_the_buffer_up_and_down_half_on_each(hosts):
    matrix, up, down = _sent(RAILS, _hosts(*range(hosts)), "all_reduce", "tree")
    assert matrix.sum() == pytest.approx(2 * (hosts - 1) * SIZE)
    assert (matrix == matrix.T).all()
    assert up.max() <= 2 * SIZE / 8
    assert down.max() <= 2 * SIZE / 8


@pytest.mark.parametrize(("hosts", "per_host"), [(2, 8), (5, 8), (16, 8), (4, 2), (3, 1)])
def test_all_to_all_sends_a_part_from_every_rank_to_every_rank_of_another_host(hosts, per_host):
    cards = _hosts(*range(hosts), per_host=per_host)
    matrix, up, down = _sent(RAILS, cards, "all_to_all", "pairs")
    ranks = hosts * per_host
    expected = (1 - np.eye(hosts)) * per_host * per_host * SIZE / ranks
    assert matrix[:hosts, :hosts] == pytest.approx(expected)
    assert up[cards] == pytest.approx([(ranks - per_host) * SIZE / ranks] * ranks)
    assert down[cards] == pytest.approx(up[cards])


def test_all_to_all_of_uneven_hosts_moves_what_every_pair_of_ranks_exchanges():
    """8 ranks and 4: 8 · 4 parts each way, an average host would have sent 6 · 6."""
    matrix, _, _ = _sent(RAILS, [*_hosts(0), 8, 9, 10, 11], "all_to_all", "pairs")
    assert matrix[0, 1] == matrix[1, 0] == pytest.approx(8 * 4 * SIZE / 12)


def test_send_and_receive_leaves_each_host_once_by_the_card_of_the_receivers_rail():
    """Rank 7 sends to rank 0 of the next host: handed to GPU 0, whose rail it is. Without rails it sends itself."""
    for fabric, card in ((RAILS, 0), (PLAIN, 7)):
        found = traffic(fabric, [group(fabric, _hosts(0, 1, 2))], "send_recv", "pairs", SIZE)
        assert found.source.tolist() == [card, 8 + card, 16 + card]
        assert found.destination.tolist() == [8, 16, 0]
        assert found.bytes.tolist() == [SIZE] * 3


def test_bytes_for_another_rail_are_handed_over_inside_the_host():
    ends = np.array([[3, 9, 20, 5], [13, 17, 16, 5 + 64]], np.int32)
    assert relayed(RAILS, *ends).tolist() == [5, 9, 16, 5]
    assert relayed(PLAIN, *ends).tolist() == ends[0].tolist()


def test_groups_that_call_at_once_have_channels_of_their_own():
    rails = [group(RAILS, [8 * host + card for host in range(4)]) for card in range(8)]
    found = traffic(RAILS, rails, "all_reduce", "ring", SIZE)
    assert len(found.bytes) == 8
    assert found.bytes.tolist() == [2 * 3 / 4 * SIZE] * 8
    assert (found.source % 8 == found.channel).all()
    assert (found.destination % 8 == found.channel).all()


@given(st.permutations(range(6)), st.integers(1, 8), st.sampled_from(["ring", "tree", "hierarchical"]))
def test_every_host_receives_what_it_sends_whatever_the_order(hosts, per_host, algorithm):
    matrix, _, _ = _sent(RAILS, _hosts(*hosts, per_host=per_host), "all_reduce", algorithm)
    assert matrix.sum(axis=0) == pytest.approx(matrix.sum(axis=1))
    assert (matrix.diagonal() == 0).all()


@pytest.mark.parametrize("cards", [[], [0, 1, 1], [-1, 0], [0, 128]])
def test_a_group_with_a_gpu_twice_or_of_no_host_is_refused(cards):
    with pytest.raises(PlanError, match=r"are no group of hpn .* which has 0 to 127. Name each once."):
        group(RAILS, cards)


def test_more_pairs_than_can_be_played_are_refused_before_they_are_made():
    """15,360 GPUs send to all: 29 million pairs of cards; 122,880: 1.9 billion, which no memory holds."""
    hpn = named("hpn")
    with pytest.raises(PlanError, match=r"29,475,840 pairs of cards are more than the 4,194,304 .* Use fewer GPUs."):
        traffic(hpn, [group(hpn, range(15_360))], "all_to_all", "pairs", SIZE)


def test_the_factors_of_bus_bandwidth_are_those_of_nccl_tests():
    """Its doc/PERFORMANCE.md: 2(n − 1)/n, (n − 1)/n, and 1 of a send."""
    assert [volume(kind, 8) for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")] == [
        2 * 7 / 8,
        7 / 8,
        7 / 8,
        7 / 8,
        1,
    ]
    assert volume("all_reduce", 1) == 0
