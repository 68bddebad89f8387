"""Shape: its text survives a round trip, and sizes that cannot be are refused with what would work."""

import pytest

from headway.errors import PlanError
from headway.fabric.shape import FAMILIES, changed, family, parse


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_text_of_a_family_is_its_name(name):
    assert str(family(name)) == name
    assert parse(name) == family(name)


def test_the_text_says_what_differs_and_parses_back():
    shape = changed(family("hpn"), {"pods": "2", "nic_speed": "100Gbps", "core_hash": "flow"})
    assert str(shape) == "hpn pods=2 nic_speed=100Gbps core_hash=flow"
    assert parse(str(shape)) == shape


def test_the_baseline_differs_from_hpn_in_what_the_paper_says():
    """Both have dual ToRs: what is compared is not their number (hpn.md §6, trap 1)."""
    hpn, dcn = family("hpn"), family("dcn+")
    assert hpn.tors == dcn.tors == 2
    assert (hpn.rails, dcn.rails) == (8, 1)
    assert (hpn.planes, dcn.planes) == (2, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hpm", "no fabric is called 'hpm'. Did you mean 'hpn'?"),
        ("", "no fabric is called ''. Known: hpn, dcn+, single-tor, single-plane, rail-only."),
        ("hpn segmnts=2", "a fabric has no 'segmnts'. Did you mean 'segments'?"),
        ("hpn family=x", "a fabric has no 'family'."),
        ("hpn pods=two", "pods=two: write a whole number of pods."),
        ("hpn pods=0", "hpn: pods is 0. Use 1 or more."),
        ("hpn backup_hosts=-1", "hpn: backup_hosts is -1. Use 0 or more."),
        ("hpn rails=3", "hpn: rails 3 does not divide gpus_per_host 8"),
        ("hpn tors=3", "hpn: tors 3 does not divide nic_ports 2"),
        ("hpn planes=3", "3 planes cannot share the 8 rails × 2 ToRs of a segment evenly."),
        ("hpn cores=0", "cores is 0 and core_links is 8. Set both"),
        ("hpn cores=0 core_links=0 pods=2", "2 pods have no cores between them."),
        ("hpn cores=30", "core_links 8 of an Agg cannot reach the 30 cores of its plane evenly."),
        ("hpn aggs=30", "30 Aggs of a plane cannot be shared by 4 groups of cores"),
        ("hpn nic_speed=fast", "'fast' is not a bandwidth."),
        ("hpn nic_speed=0Gbps", "nic_speed is 0Gbps. Use one above 0"),
        ("hpn core_hash=prt", "core_hash is 'prt'. Did you mean 'port'?"),
        ("hpn hosts=99999999", "links are more than the 16,777,216 that are built."),
        ("hpn switch_ports=999999", "switch_ports is 999999. Use 65536 or fewer."),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_what_would_work(text, said):
    with pytest.raises(PlanError) as refused:
        parse(text)
    assert said in str(refused.value)
