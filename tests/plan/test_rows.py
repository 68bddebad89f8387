"""Schedules from a CSV file: what trains, and what is refused with one message before anything starts."""

import pytest

from headway.errors import PlanError
from headway.plan import build, read
from headway.plan.job import Job
from headway.schedule.action import Kind
from headway.schedule.check import check
from headway.schedule.schedule import from_csv, to_csv
from tests.train.cases import BY_HAND, V_SHAPED

JOB = "cluster: a100-80gb-hdr\ntrain: {global_batch: 4, microbatch: 1}\n"


def _plan(tmp_path, rows, parallel="pipeline: 2, data: 1, chunks: 2"):
    (tmp_path / "mine.csv").write_text(rows)
    (tmp_path / "job.yaml").write_text(f"{JOB}parallel: {{{parallel}, schedule: mine.csv}}\n")
    return build.from_file(tmp_path / "job.yaml")


def _compute(schedule):
    return tuple(schedule.compute(rank) for rank in range(schedule.num_ranks))


def test_a_file_beside_the_job_gives_the_order_and_the_places(tmp_path):
    plan = _plan(tmp_path, V_SHAPED)
    assert _compute(plan.schedule) == from_csv(V_SHAPED).rows
    assert plan.schedule.ranks == plan.evaluation.ranks == {0: 0, 1: 1, 2: 1, 3: 0}
    assert plan.schedule.name == "mine.csv"
    check(plan.schedule)
    check(plan.evaluation)


def test_messages_reductions_and_steps_in_a_file_give_way_to_those_that_headway_adds(tmp_path):
    """So that a plan's own rows, and torch's lowered ones, can be edited and read again."""
    bare = "parallel", "pipeline: 2, data: 2"
    rows = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    plan = _plan(tmp_path, rows, bare[1])
    lowered = "0UNSHARD," + to_csv(plan.schedule)
    assert "SEND_F" in lowered
    assert "REDUCE_GRAD" in lowered
    assert _plan(tmp_path, lowered, bare[1]) == plan


def test_idle_cells_and_trailing_lines_mean_nothing(tmp_path):
    plan = _plan(tmp_path, BY_HAND + "\n\n", "pipeline: 2, data: 2")
    assert [str(action) for action in plan.schedule.compute(0)] == ["0F1", "0F0", "0B1", "0B0"]


def test_a_tied_embedding_with_both_its_stages_on_one_rank_is_nobody_elses(tmp_path):
    plan = _plan(tmp_path, V_SHAPED)
    tokens = next(unit for unit in plan.units if not unit.blocks)
    assert plan.holders(tokens) == (0,)
    assert tokens in plan.units_of_rank(0)
    assert tokens not in plan.units_of_rank(1)
    assert not any(action.kind is Kind.REDUCE_GRAD for row in plan.schedule.rows for action in row)


def test_a_plan_of_a_file_survives_its_own_file(tmp_path):
    from headway.plan.plan import dumps, loads

    plan = _plan(tmp_path, V_SHAPED)
    assert loads(dumps(plan)) == plan


ONE = "0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3\n"
TWO = ONE + ONE.replace("0F", "1F").replace("0B", "1B")
THREE = "0F0,2F0,2B0,0B0\n1F0,1B0\n"
WRONG = [
    ("rows for more ranks", TWO + ONE.replace("0F", "2F").replace("0B", "2B"), "has 3 rows, but"),
    ("one row", ONE, "Write one row for each rank, or set parallel.pipeline 1."),
    ("an idle rank", f"{ONE[:-1]},{TWO[len(ONE):]},,\n", "has nothing to do for rank 1."),
    ("too many stages", V_SHAPED, "has 4 stages, but parallel.pipeline 2 × parallel.chunks 1 makes 2. Set parallel.ch"),
    ("three stages", THREE, "has 3 stages, but parallel.pipeline 2 × parallel.chunks 1 makes 2. Use 2 stages."),
    (
        "fewer micro-batches",
        "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n",
        "has 2 micro-batches, but train.global_batch 4 = train.microbatch 1 × parallel.data 1 × 4 micro-batches. "
        "Use train.global_batch 2, or write rows for 4.",
    ),
    ("a missing action", TWO.replace(",1B2", ""), "1 actions are missing for 2 stages and 4 micro-batches"),
    ("an action twice", TWO.replace("1B2", "1B1"), "rank 1 has 1B1 2 times; once is right."),
    ("a stage on two ranks", TWO.replace("1F2", "0F7"), "Put all actions of a stage into one row."),
    ("a circle", TWO.replace("0F1,0B1", "0B1,0F1"), "cannot finish: its rows wait for each other"),
    ("forwards only", "0F0,0F1,0F2,0F3\n1F0,1F1,1F2,1F3\n", "has no backward"),
    ("split backwards", TWO.replace("0B", "0I").replace(",0F", ",0W0,0F"), "has I and W in its rows"),
    ("weight versions", "0USE0," + TWO, "has USE in its rows, which is not trained yet"),
    ("evictions", TWO.replace("0F0,", "0F0,0EVICT0,0RESTORE0,"), "has EVICT and RESTORE in its rows, which is not"),
    ("a word", TWO.replace("1F2", "1X2"), "line 2: '1X2' is not an action."),
    ("nothing", "", "the schedule is empty"),
    ("blank lines", "\n\n", "the schedule is empty"),
    ("binary data", "\udcff\udcfe", "is not text in UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_file_is_refused_with_its_path_the_numbers_and_a_remedy(tmp_path, capsys, rows, says):
    from headway.cli.main import main

    (tmp_path / "mine.csv").write_bytes(rows.encode(errors="surrogateescape"))
    job = tmp_path / "job.yaml"
    job.write_text(f"{JOB}parallel: {{pipeline: 2, data: 1, schedule: mine.csv}}\n")
    for verb in ("plan", "train"):
        assert main([verb, str(job)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("Error: ") == 1
        assert says in err
        assert "mine.csv" in err


def test_what_is_no_readable_file_is_refused(tmp_path):
    for name, says in (
        ("gone.csv", "there is no file"),
        ("folder.csv", "cannot be read"),
        ("a\0b.csv", "cannot be read"),
    ):
        if name == "folder.csv":
            (tmp_path / name).mkdir()
        job = read.decode(Job, {"parallel": {"schedule": name}}, "job")
        with pytest.raises(PlanError, match=says):
            build.build(job, folder=tmp_path)


@pytest.mark.parametrize("microbatches", range(1, 10))
def test_interleaved_plays_a_multiple_of_its_ranks_and_else_names_the_nearest(plan_of, microbatches):
    """Megatron-LM #750, torch #126600: other numbers hung, or trained in a wrong order."""
    sections = {"pipeline": 2, "data": 1, "chunks": 2, "schedule": "interleaved"}
    train = {"global_batch": microbatches * 3, "microbatch": 3}
    if microbatches % 2 == 0:
        plan = plan_of(parallel=sections, train=train)
        assert len(plan.schedule.compute(0)) == 2 * 2 * microbatches
        return
    near = [m for m in (microbatches - 1, microbatches + 1) if m]
    batches = " or ".join(str(3 * m) for m in near)
    said = rf"got {microbatches} micro-batches for 2 ranks\. Use .*\(train\.global_batch {batches}\)"
    with pytest.raises(PlanError, match=said):
        plan_of(parallel=sections, train=train)
    for m in near:
        plan_of(parallel=sections, train={"global_batch": 3 * m, "microbatch": 3})


def test_a_last_microbatch_that_would_be_short_is_refused_with_the_batches_that_are_whole(plan_of):
    """torch #126600: eight sequences in three micro-batches."""
    for parallel in ({"schedule": "1f1b"}, {"schedule": "interleaved", "chunks": 2}):
        with pytest.raises(
            PlanError, match=r"train\.global_batch 8 is not a multiple .* Use train\.global_batch 6 or 9"
        ):
            plan_of(parallel={"pipeline": 2, "data": 1, **parallel}, train={"global_batch": 8, "microbatch": 3})


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_fewer_microbatches_than_ranks_are_played_with_the_bubble_that_they_have(plan_of, schedule):
    for microbatches in (1, 2, 3):
        plan = plan_of(
            parallel={"pipeline": 4, "data": 1, "schedule": schedule},
            train={"global_batch": microbatches, "microbatch": 1},
        )
        assert all(len(plan.schedule.compute(rank)) == 2 * microbatches for rank in range(4))
