"""Reading published rows: what a step took and held, files of all kinds, and what is refused with which words."""

import gzip
from pathlib import Path

import pytest

from headway.advise import published
from headway.errors import PlanError
from tests.advise.rows import BASE, GIB, row_of, write

SHARED = Path("/work/shared/validation")


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"iter_s": 2.5, "iter_s_derived": 9, "samples_s": 1}, 2.5),
        ({"iter_s": "", "iter_s_derived": 3.5, "tokens_s_gpu": 1}, 3.5),
        ({"iter_s": "", "tokens_s_gpu": 1024, "samples_s": 1}, 16 * 2048 / (1024 * 8)),
        ({"iter_s": "", "samples_s": 4}, 4.0),
        ({"iter_s": "", "samples_s_gpu": 0.25}, 8.0),
        ({"iter_s": ""}, None),
        ({"iter_s": None}, None),
    ],
)
def test_the_seconds_of_a_step_are_the_published_ones_else_follow_from_the_throughput(tmp_path, changes, seconds):
    assert row_of(tmp_path, **changes).seconds == seconds


@pytest.mark.parametrize(
    ("unit", "kind", "size"),
    [
        ("GiB", "reserved", 50 * GIB),
        ("GB", "allocated", 50 * 10**9),
        ("GiB", "", 50 * GIB),
        ("", "reserved", None),
        ("GiB", "formula", None),
    ],
)
def test_memory_is_in_the_unit_that_the_row_names_and_none_where_nobody_measured_it(tmp_path, unit, kind, size):
    row = row_of(tmp_path, peak_mem_gb=50, mem_unit=unit, mem_kind=kind)
    assert row.memory == size
    assert row.memory_kind == (kind or "unstated")


def test_a_row_ran_if_its_status_is_ok_or_none(tmp_path):
    assert row_of(tmp_path).ran
    assert row_of(tmp_path, status="").ran
    assert not row_of(tmp_path, status="crashed").ran


def test_facts_are_as_given_and_mfu_is_a_fraction(tmp_path):
    row = row_of(tmp_path, mfu_pct="39.2", notes="x, y")
    assert (row.facts["mfu_pct"], row.facts["notes"]) == ("39.2", "x, y")
    assert row.mfu == pytest.approx(0.392, rel=1e-12)
    assert "hfu_pct" not in row.facts


@pytest.mark.parametrize(
    ("lacking", "column", "value"),
    [
        ({"dp": ""}, "dp", 2),
        ({"n_gpus": ""}, "n_gpus", 8),
        ({"mbs": "", "grad_accum": 4}, "mbs", 2),
        ({"gbs": "", "grad_accum": 4}, "gbs", 16),
        ({"cp": None}, "cp", 1),
        ({"dp": "", "mbs": "", "grad_accum": 4}, "mbs", 2),
        ({"dp": "", "tp": ""}, "dp", None),
        ({"dp": "", "n_gpus": 10}, "dp", None),
    ],
)
def test_one_lacking_factor_follows_from_the_others_by_multiplication(tmp_path, lacking, column, value):
    assert row_of(tmp_path, **lacking).whole(column) == value


def test_what_a_row_calls_missing_is_no_fact_even_if_the_cell_is_filled(tmp_path):
    row = row_of(tmp_path, missing="vpp nic_gbps_per_gpu", heads="many")
    assert "vpp" not in row.facts
    assert row.whole("vpp") is None
    assert {"vpp", "nic_gbps_per_gpu", "heads"} <= row.missing


def test_a_mark_of_byte_order_other_line_ends_more_columns_and_blank_lines_do_not_matter(tmp_path):
    path = write(tmp_path / "dos.csv", {"weather": "fair"}, {"id": "lab-2"}, start="\ufeff")
    content = path.read_bytes()
    assert content.count(b"\r\n") == 3
    path.write_bytes(content + b"\r\n" + b"," * 10 + b"\r\n")
    (tmp_path / "unix.csv.gz").write_bytes(gzip.compress(content.replace(b"\r\n", b"\n")))
    dos, unix = published.read([path]), published.read([tmp_path / "unix.csv.gz"])
    assert [row.id for row in dos] == [row.id for row in unix] == ["lab-1", "lab-2"]
    assert dos[0].facts["weather"] == "fair"


def test_columns_that_may_be_absent_are_all_but_the_required_ones(tmp_path):
    optional = [column for column in BASE if column not in published.REQUIRED]
    path = write(tmp_path / "few.csv", {}, without=optional)
    assert published.read([path])[0].whole("dp") == 2


@pytest.mark.parametrize("column", published.REQUIRED)
def test_a_file_without_a_required_column_is_refused_by_its_name(tmp_path, column):
    path = write(tmp_path / "rows.csv", {}, without=[column])
    with pytest.raises(PlanError, match=rf"rows\.csv has no column '{column}'"):
        published.read([path])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tp": "two"}, "rows.csv, line 2, row 'lab-1': tp is no number: 'two'."),
        ({"iter_s": "1.2s"}, "line 2, row 'lab-1': iter_s is no number: '1.2s'."),
        ({"iter_s": "nan"}, "row 'lab-1': iter_s is no number: 'nan'."),
        ({"gbs": "1_6"}, "row 'lab-1': gbs is no number: '1_6'."),
        ({"layers": "8.5"}, "row 'lab-1': layers is a whole number, got '8.5'."),
        ({"dp": 0}, "row 'lab-1': dp is at least 1, got '0'."),
        ({"iter_s": -1}, "row 'lab-1': iter_s is a number above 0, got '-1'."),
        ({"iter_s": 0}, "row 'lab-1': iter_s is a number above 0, got '0'."),
        ({"zero_stage": 4}, "row 'lab-1': zero_stage is 0 to 3, got '4'."),
        ({"peak_mem_gb": 50, "mem_unit": "MB"}, "row 'lab-1': mem_unit is one of GiB, GB, got 'MB'."),
        ({"id": ""}, "rows.csv, line 2 has no id"),
        ({"source_group": ""}, "rows.csv, line 2 has no source_group"),
    ],
)
def test_a_wrong_cell_is_named_with_its_row_and_column(tmp_path, change, said):
    with pytest.raises(PlanError) as refused:
        row_of(tmp_path, **change)
    assert said in str(refused.value)


def _header(rest=b""):
    return ",".join(published.REQUIRED).encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("blank.csv", b"\n\n", "blank.csv is empty"),
        ("header.csv", _header(), "header.csv has a header but no rows."),
        ("other.csv", b"name;value\na;1\n", "has no column 'id'"),
        ("binary.csv", b"\xff\xfe\x00\x01", "binary.csv is not text in UTF-8."),
        ("half.csv.gz", gzip.compress(b"id\n" * 99, mtime=0)[:-9], "half.csv.gz is not a whole gzip file."),
        ("plain.csv.gz", b"id\n", "plain.csv.gz is not a whole gzip file."),
        ("twice.csv", b"id,id\n1,2\n", "twice.csv has the column 'id' twice."),
        ("wide.csv", _header(b"1," * 40 + b"\n"), "wide.csv, line 2 has 41 fields for 17 columns."),
    ],
)
def test_a_file_that_is_no_table_of_rows_is_refused_with_its_name(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlanError) as refused:
        published.read([tmp_path / name])
    assert said in str(refused.value)


def test_a_directory_and_a_file_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(PlanError, match="is a directory"):
        published.read([tmp_path])
    with pytest.raises(PlanError, match="there is no file"):
        published.read([tmp_path / "none.csv"])


def test_each_column_that_is_read_is_explained():
    page = (Path(__file__).parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")
    columns = page.partition("| column |")[2].partition("\n\n")[0]
    unused = {"params_b", "tflops_per_gpu"}  # shown by --row, not compared
    assert not [
        column
        for column in (*published.REQUIRED, *published.NUMBERS)
        if f"`{column}`" not in columns and column not in unused
    ]


def test_the_packaged_rows_are_found_and_each_has_a_time_or_did_not_run():
    rows = published.packaged()
    ran = [row for row in rows if row.ran]
    assert (len(ran), len(rows) - len(ran)) == (2580, 807)
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.seconds for row in ran)
    assert sum(row.memory is not None for row in ran) == 980
    fastest = next(row for row in ran if row.id == "korthikanti-t5-0006")
    assert (fastest.seconds, fastest.whole("layers"), fastest.source) == (37.83, 105, "korthikanti-t5")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared set is not on this machine")
@pytest.mark.parametrize("name", published.PACKAGED)
def test_the_packaged_rows_are_those_of_the_shared_set(name):
    packaged = Path(published.__file__).parent / name
    assert gzip.decompress(packaged.read_bytes()) == (SHARED / name.removesuffix(".gz")).read_bytes()
