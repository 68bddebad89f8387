"""Ways: which links lead where, as a walk over the working links finds them."""

import numpy as np
from hypothesis import given

from headway.fabric.fabric import NONE, Tier
from headway.fabric.topologies import named
from headway.fabric.ways import ways
from tests.fabric.broken import broken


def _tors(fabric, alive, card):
    """The ToRs that working links of a card lead to, one a link."""
    return sorted(fabric.upper[(fabric.lower == card) & alive].tolist())


@given(broken())
def test_cards_under_the_same_tors_are_one_target_and_a_card_without_links_is_none(case):
    fabric, alive = case
    found = ways(fabric, alive)
    under = [tuple(_tors(fabric, alive, card)) for card in range(fabric.num_gpus)]
    assert [target == NONE for target in found.target.tolist()] == [not tors for tors in under]
    pairs = {(tors, target) for tors, target in zip(under, found.target.tolist(), strict=True) if tors}
    assert len(pairs) == len({tors for tors, _ in pairs}) == len({target for _, target in pairs})


@given(broken())
def test_each_working_port_has_its_link_and_no_other_has_one(case):
    fabric, alive = case
    found = ways(fabric, alive).ports
    for card in range(fabric.num_gpus):
        links = np.flatnonzero(fabric.lower == card)
        assert found[card].tolist() == np.where(alive[links], links, NONE).tolist()


@given(broken())
def test_down_from_a_node_are_all_working_links_behind_which_a_card_lies(case):
    fabric, alive = case
    found = ways(fabric, alive)
    below = np.zeros((fabric.num_nodes, fabric.num_gpus), bool)  # which cards lie below a node
    below[np.arange(fabric.num_gpus), np.arange(fabric.num_gpus)] = True
    tables = {Tier.GPU: found.to_card, Tier.TOR: found.to_tor, Tier.AGG: found.to_agg}
    for tier, table in tables.items():
        links = fabric.links(tier)
        links = links[alive[links]]
        np.logical_or.at(below, fabric.upper[links], below[fabric.lower[links]])
        some = range(0, fabric.num_gpus, 5)
        for node in fabric.nodes(Tier(tier + 1)).tolist():
            for card in some:
                if found.target[card] == NONE:
                    continue
                target = card if tier is Tier.GPU else int(found.target[card])
                count, first = table.find(np.array([node], np.int32), np.array([target], np.int32))
                listed = table.links[int(first[0]) : int(first[0] + count[0])] if count[0] else []
                expected = links[(fabric.upper[links] == node) & below[fabric.lower[links], card]]
                assert sorted(int(link) for link in listed) == expected.tolist()


def test_what_switches_know_does_not_grow_with_hosts_but_with_segments():
    """Targets are ToR pairs: 15 segments of 8 rails; ToRs of a plane are one class, Aggs one of each group of cores."""
    found = ways(named("hpn"))
    assert len(found.target) == 16_320
    assert found.target.max() == 15 * 8 - 1
    assert found.from_tor.count.shape == (2, 120)
    assert found.from_agg.count.shape == (2 * 4, 120)
    assert set(np.unique(found.from_tor.count)) == {60}
    assert set(np.unique(found.from_agg.count)) == {8}


def test_a_fabric_of_which_nothing_works_has_no_ways():
    fabric = named("hpn segments=1 hosts=1 backup_hosts=0")
    found = ways(fabric, np.zeros(fabric.num_links, bool))
    assert (found.ports == NONE).all()
    assert (found.target == NONE).all()
    assert not found.to_card.find(np.array([8], np.int32), np.array([0], np.int32))[0].any()
