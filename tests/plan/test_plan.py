"""The document: its file, its digest, its units and groups."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.model.unit import ALIGNED
from headway.placement import zero
from headway.plan import plan as plans
from headway.plan.job import Run
from headway.schedule import schedule as schedules
from headway.schedule.operation import Lane

_PARALLEL = st.fixed_dictionaries(
    {
        "pipeline": st.integers(1, 3),
        "data": st.sampled_from([1, 2]),
        "schedule": st.sampled_from(["gpipe", "1f1b"]),
        "unit_bytes": st.sampled_from([1, 2**20, 2**40]),
        "zero": st.integers(0, 3),
    }
)


@given(_PARALLEL, st.booleans(), st.floats(1e-12, 1e3))
def test_a_plan_survives_its_file(plan_of, parallel, tied, lr):
    plan = plan_of(parallel=parallel, model={"preset": "gpt-tiny", "tied": tied}, optimizer={"lr": lr})
    again = plans.loads(plans.dumps(plan))
    assert again == plan
    assert plans.digest(again) == plans.digest(plan)
    assert again.program.rows == plan.program.rows


def test_a_plan_on_this_machine_survives_its_file(plan_of):
    plan = plan_of(cluster="local-cpu")
    assert plans.loads(plans.dumps(plan)) == plan


def test_a_digest_is_twelve_hexadecimal_digits_and_the_same_for_ever(plan_of):
    digest = plans.digest(plan_of())
    assert len(digest) == 12
    int(digest, 16)
    assert digest == plans.digest(plan_of())


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"preset": "gpt-tiny", "layers": 5}},
        {"cluster": "h800-hpn"},
        {"cluster": {"preset": "a100-80gb-hdr", "fabric": "hpn nic_speed=100Gbps"}},
        {"parallel": {"schedule": "gpipe"}},
        {"parallel": {"pipeline": 3}},
        {"parallel": {"unit_bytes": 1}},
        {"train": {"seed": 1}},
        {"train": {"microbatch": 2}},
        {"train": {"steps": 201}},
        {"optimizer": {"lr": 1e-3}},
        {"data": {"path": "texts"}},
    ],
    ids=str,
)
def test_the_digest_changes_with_anything_that_is_played(plan_of, sections):
    assert plans.digest(plan_of(**sections)) != plans.digest(plan_of())


def test_the_digest_does_not_change_with_names_and_places(plan_of):
    plan = plan_of()
    moved = dataclasses.replace(plan, name="other", run=Run(directory="elsewhere"))
    assert plans.digest(moved) == plans.digest(plan)
    assert moved != plan


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"stages": ((), ("embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"))},
            "not in the first stage",
        ),
        ({"stages": (("embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"), ())}, "not in the last"),
        ({"evaluation": "# e\n1F0,1F1,1F2,1F3\n0F0,0F1,0F2,0F3\n"}, "has stages on other ranks than 1f1b"),
        (
            {"placement": dataclasses.replace(zero(3), optimizer=zero(0).optimizer)},
            "no stage of ZeRO places its state so",
        ),
        ({"prefetch": -1}, "prefetch must not be negative, got -1"),
    ],
)
def test_a_plan_whose_parts_do_not_belong_together_is_refused(plan_of, change, says):
    plan = plan_of()
    if "evaluation" in change:
        change = {"evaluation": schedules.parse(change["evaluation"])}
    with pytest.raises(PlanError, match=says):
        dataclasses.replace(plan, **change)


@pytest.mark.parametrize(("planned", "edited"), [(0, 1), (0, 3), (3, 0), (2, 1), (1, 2), (2, 3)])
def test_a_file_whose_rows_are_of_another_placement_is_refused(plan_of, planned, edited):
    """Parameters that nobody gathers would be read where there is no memory."""
    plan = plan_of(parallel={"zero": planned, "whole_below": 0})
    text = plans.dumps(dataclasses.replace(plan, placement=zero(edited)))
    with pytest.raises(PlanError, match=r"of stage 0 \d+ times, but \d+ times are right for params .* plan again"):
        plans.loads(text)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"layout": 5}', '{"schedule": {}}', "null"])
def test_text_that_is_no_plan_is_refused(text):
    with pytest.raises(PlanError):
        plans.loads(text, "x.json")


def test_a_plan_file_that_is_not_there_is_refused_with_its_path(tmp_path):
    with pytest.raises(PlanError, match=r"nowhere\.json cannot be read"):
        plans.read(tmp_path / "nowhere.json")


def test_every_rank_holds_the_units_of_its_stages_and_the_shared_weight_where_it_is_used(plan_of):
    plan = plan_of(parallel={"pipeline": 3, "data": 2, "unit_bytes": 1})
    held = [[unit.name for unit in plan.units_of_rank(rank)] for rank in range(6)]
    assert held[0] == held[1]
    assert held[4] == held[5]
    assert [name for rank in (0, 2, 4) for name in held[rank] if name != "tokens"] == [
        "embedding",
        "layers.0",
        "layers.1",
        "layers.2",
        "layers.3",
        "head",
    ]
    assert ["tokens" in held[rank] for rank in range(6)] == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("parallel", "shared", "first"),
    [
        ({"pipeline": 1, "data": 1}, (0,), (0,)),
        ({"pipeline": 1, "data": 3}, (0, 1, 2), (0, 1, 2)),
        ({"pipeline": 3, "data": 1}, (0, 2), (0,)),
        ({"pipeline": 3, "data": 2}, (0, 1, 4, 5), (0, 1)),
    ],
)
def test_a_units_group_is_everyone_who_holds_it(plan_of, parallel, shared, first):
    plan = plan_of(parallel=parallel, train={"global_batch": 24, "microbatch": 4})
    tokens, unit = plan.units[-1], plan.units[0]
    for rank in shared:
        assert plan.group(rank, tokens) == shared
    assert plan.group(0, unit) == first


def test_a_shared_weight_is_reduced_after_its_last_use(plan_of):
    plan = plan_of(parallel={"pipeline": 3, "data": 2, "unit_bytes": 1})
    reduced = [{(part.name, part.users[0], part.lane) for part in parts.shared if part.reduces} for parts in plan.parts]
    assert ("tokens", "embedding", Lane.SHARED) in reduced[0]
    assert ("tokens", "head", Lane.SHARED) in reduced[2]
    assert not [name for name, _, _ in reduced[1] if name == "tokens"]
    alone = plan_of(parallel={"pipeline": 1, "data": 2, "unit_bytes": 1}).parts[0].shared
    assert [(part.users, part.lane) for part in alone if part.name == "tokens"] == [
        (("embedding", "head"), Lane.SHARED)
    ]


def test_a_rank_with_both_ends_of_an_interleaved_model_reduces_the_shared_weight_once(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 2, "chunks": 2, "schedule": "interleaved"})
    mine = [[part.reduces for part in parts.shared if part.name == "tokens"] for parts in plan.parts]
    assert mine == [[True], [False]]


def test_small_units_stay_whole_and_a_weight_of_two_stages_keeps_its_parameters_and_gradients(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2, "zero": 3, "unit_bytes": 1, "whole_below": "100KiB"})
    placed = {unit.name: plan.placed(unit) for unit in plan.units}
    assert plan.unit("head").numel * 4 < 100 * 1024 < plan.unit("embedding").numel * 4
    assert placed["head"] == zero(0)
    assert placed["embedding"] == placed["layers.3"] == zero(3)
    assert placed["tokens"] == zero(1)
    alone = plan_of(parallel={"pipeline": 1, "data": 2, "zero": 3, "unit_bytes": 1})
    assert alone.placed(alone.unit("tokens")) == zero(3)


def test_nothing_is_cut_where_there_is_one_data_rank(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 1, "zero": 3, "whole_below": 0}, train={"global_batch": 8})
    assert {plan.placed(unit) for unit in plan.units} == {zero(0)}
    assert plan.program.rows == plan_of(parallel={"pipeline": 2, "data": 1}, train={"global_batch": 8}).program.rows


@pytest.mark.parametrize("data", [2, 3, 5])
def test_the_ranks_that_share_a_unit_keep_ranges_that_cover_it_once(plan_of, data):
    parallel = {"pipeline": 2, "data": data, "zero": 1, "unit_bytes": 1, "whole_below": 0}
    plan = plan_of(parallel=parallel, train={"global_batch": 4 * data, "microbatch": 4})
    for unit in plan.units:
        group = plan.group(plan.layout.rank({"pipeline": plan.holders(unit)[0]}), unit)
        assert len(group) == plan.num_sharing(unit) == data * len(plan.holders(unit))
        owned = [plan.own(rank, unit) for rank in group]
        assert [own.start for own in owned[1:]] == [own.stop for own in owned[:-1]]
        assert (owned[0].start, owned[-1].stop) == (0, unit.numel)
        assert all(own.start % ALIGNED == 0 or own.start == unit.numel for own in owned)
        assert max(own.stop - own.start for own in owned) <= unit.part(len(group))
        assert plan.padded(unit) == unit.part(len(group)) * len(group) < unit.numel + len(group) * ALIGNED
