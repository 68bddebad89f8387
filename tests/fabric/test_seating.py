"""Seating: which hosts in which order, and which groups jobs make on them."""

import numpy as np
import pytest

from headway.errors import PlanError
from headway.fabric.seating import groups, order
from headway.fabric.topologies import named

FABRIC = named("hpn segments=2 hosts=3 backup_hosts=1 aggs=2 cores=0 core_links=0")  # hosts 6 and 7 are spares


def test_packed_hosts_stand_as_the_fabric_numbers_them_without_spares():
    assert order(FABRIC, 6, "packed", 0).tolist() == [0, 1, 2, 3, 4, 5]
    assert order(FABRIC, 4, "packed", 0).tolist() == [0, 1, 2, 3]


def test_random_hosts_are_the_packed_ones_shuffled_by_the_seed():
    one, again, other = (order(FABRIC, 5, "random", seed).tolist() for seed in (1, 1, 2))
    assert one == again != other
    assert sorted(one) == sorted(other) == [0, 1, 2, 3, 4]


def test_told_hosts_come_as_told_spares_too_and_only_as_many_as_are_needed():
    assert order(FABRIC, 3, [7, 0, 5, 1], 0).tolist() == [7, 0, 5]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([0, 1], "an order of 2 hosts from 0 to 1 is told. 3 are needed, each once, of 0 to 7."),
        ([0, 1, 1], "an order of 3 hosts from 0 to 1 is told. 3 are needed"),
        ([0, -1, 1], "an order of 3 hosts from -1 to 1 is told. 3 are needed"),
        ([0, 1, 8], "an order of 3 hosts from 0 to 8 is told. 3 are needed, each once, of 0 to 7."),
        ([], "an order of 0 hosts"),
    ],
)
def test_an_order_that_lacks_hosts_or_names_them_twice_or_others_is_refused(told, said):
    with pytest.raises(PlanError) as refused:
        order(FABRIC, 3, told, 0)
    assert str(refused.value).startswith(said)


def test_more_hosts_than_are_active_are_refused():
    with pytest.raises(PlanError, match=r"7 hosts are needed, hpn .* has 6 active ones. Use fewer GPUs, or more pods."):
        order(FABRIC, 7, "packed", 0)


def test_an_unknown_order_is_refused():
    with pytest.raises(PlanError, match=r"the order is 'ramdom'. Did you mean 'random'\?"):
        order(FABRIC, 2, "ramdom", 0)


def test_one_job_is_one_group_rank_by_rank_in_the_order_of_hosts():
    (one,) = groups(FABRIC, np.array([4, 2]), 16)
    assert one.ranks == 16
    assert one.cards.tolist() == [list(range(32, 40)), list(range(16, 24))]


def test_by_rail_each_gpu_of_a_host_has_a_group():
    found = groups(FABRIC, np.array([4, 2, 0]), 24, by_rail=True)
    assert [each.cards.ravel().tolist() for each in found] == [[32 + card, 16 + card, card] for card in range(8)]
    assert [each.ranks for each in found] == [3] * 8


def test_jobs_share_hosts_in_turn():
    one, other = groups(FABRIC, np.arange(4), 32, jobs=2)
    assert one.cards.ravel().tolist() == list(range(16))
    assert other.cards.ravel().tolist() == list(range(16, 32))
    assert [each.ranks for each in groups(FABRIC, np.arange(4), 32, jobs=2, by_rail=True)] == [2] * 16


def test_small_jobs_share_a_host_evenly():
    found = groups(FABRIC, np.arange(1), 8, jobs=2)
    assert [each.cards.tolist() for each in found] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


@pytest.mark.parametrize(
    ("gpus", "jobs", "said"),
    [
        (0, 1, "0 GPUs for 1 job on hosts of 8 are no whole hosts each. Use a multiple of 8."),
        (-8, 1, "-8 GPUs for 1 job"),
        (12, 1, "12 GPUs for 1 job on hosts of 8 are no whole hosts each. Use a multiple of 8."),
        (24, 2, "24 GPUs for 2 jobs on hosts of 8 are no whole hosts each. Use a multiple of 16."),
        (10, 3, "10 GPUs for 3 jobs"),
        (24, 8, "24 GPUs for 8 jobs"),  # of 3 GPUs each, the third job on two hosts
        (16, 0, "0 jobs are to share the GPUs. Use 1 or more."),
        (16, -1, "-1 jobs are to share the GPUs."),
    ],
)
def test_gpus_that_jobs_cannot_share_in_whole_or_even_parts_of_hosts_are_refused(gpus, jobs, said):
    with pytest.raises(PlanError) as refused:
        groups(FABRIC, np.arange(6), gpus, jobs=jobs)
    assert str(refused.value).startswith(said)


def test_more_gpus_than_the_hosts_have_are_refused():
    with pytest.raises(PlanError, match=r"32 GPUs are on 4 hosts of 8, and 3 are given."):
        groups(FABRIC, np.arange(3), 32)
