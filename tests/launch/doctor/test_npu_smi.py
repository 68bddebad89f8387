"""npu-smi's three layouts are read as they are; whatever else it writes gives no traceback and no invented NPU."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.launch.doctor.npu_smi import Holder, Npu, is_refused, logical, parse

GOLDEN = Path(__file__).parents[2] / "golden"
SAMPLES = {name: (GOLDEN / f"npu-smi-{name}.txt").read_text(encoding="utf-8") for name in ("310", "910b", "a3")}
MIB = 2**20


def test_a_310_has_no_hbm_and_its_memory_is_what_the_table_calls_memory():
    table = parse(SAMPLES["310"])
    assert table.version == "21.0.3.1"
    assert table.npus == (Npu(1, 0, 0, "310", "OK", "0000:01:00.0", 2621 * MIB, 8192 * MIB),)
    assert table.odd == ()


def test_a_910b_has_hbm_and_says_no_number_of_its_node():
    table = parse(SAMPLES["910b"])
    assert table.version == "23.0.3"
    assert table.npus == (Npu(0, 0, None, "910B3", "OK", "0000:C1:00.0", 3159 * MIB, 65536 * MIB),)
    assert table.holders == table.odd == ()


def test_an_a3_has_two_chips_in_each_npu_and_says_their_physical_numbers():
    table = parse(SAMPLES["a3"])
    assert table.version == "26.0.rc2"
    assert [(each.npu, each.chip, each.number, each.bus) for each in table.npus] == [
        (0, 0, 0, "0000:9D:00.0"),
        (0, 1, 1, "0000:9F:00.0"),
    ]
    assert [each.used // MIB for each in table.npus] == [3419, 2874]
    assert {each.memory for each in table.npus} == {2**36}
    assert {each.name for each in table.npus} == {"Ascend910"}


def test_processes_below_the_table_are_holders_of_their_chip():
    row = "| 0       0                 | 4711          | python3                  | 3079                    |\n"
    text = SAMPLES["910b"].replace(
        "| No running processes found in NPU 0", row + "| No running processes found in NPU 1"
    )
    assert parse(text).holders == (Holder(0, 0, 4711, "python3"),)
    assert len(parse(text).npus) == 1


def test_a_row_that_is_torn_is_said_and_the_others_are_kept():
    lines = SAMPLES["a3"].splitlines()
    second = next(i for i, line in enumerate(lines) if "9F:00.0" in line)
    lines[second] = lines[second].replace("2874 / 65536", "????")
    table = parse("\n".join(lines))
    assert [each.bus for each in table.npus] == ["0000:9D:00.0"]
    assert len(table.odd) == 1
    assert "????" in table.odd[0]


def test_a_row_that_is_missing_costs_its_own_npu_and_no_other():
    lines = SAMPLES["a3"].splitlines()
    for gone in ("9D:00.0", "162.6"):
        rest = [line for line in lines if gone not in line]
        table = parse("\n".join(rest))
        assert [each.bus for each in table.npus] == ["0000:9F:00.0"]
        assert len(table.odd) == 1


def test_a_table_that_ends_within_an_npu_says_what_is_left_of_it():
    cut = SAMPLES["910b"][: SAMPLES["910b"].index("| 0                         | 0000:C1")]
    table = parse(cut)
    assert table.npus == ()
    assert "910B3" in table.odd[0]


def test_a_chip_that_is_ill_keeps_the_word_of_the_table():
    assert parse(SAMPLES["910b"].replace("| OK  ", "| Alarm")).npus[0].health == "Alarm"


@pytest.mark.parametrize(
    "text", ["", "\n", "|", "|||", "command not found", "dcmi module initialize failed. ret is -8005"]
)
def test_what_is_no_table_gives_no_npu(text):
    assert parse(text).npus == ()


@pytest.mark.parametrize("number", [-8005, -8020])
def test_the_two_refusals_of_the_driver_are_known(number):
    assert is_refused(f"dcmi model initialized failed, because the device is used. ret is {number}")
    assert not is_refused("ret is -80051")


def test_management_chips_have_no_logic_id():
    text = (
        "\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name\n"
        "\t8                              0                              0                              Ascend 910B3\n"
        "\t8                              1                              -                              Mcu\n"
        "\t9                              0                              1                              Ascend 910B3\n"
        "\t9                              1                              -                              Mcu\n"
    )
    assert logical(text) == (0, 1)
    assert logical("no such thing") == ()


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_table_with_lines_and_signs_mixed_up_gives_no_traceback(name, data):
    text = list(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 8))):
        where = data.draw(st.integers(0, len(text) - 1))
        text[where] = data.draw(
            st.sampled_from(["|", "", "\n", "/", "9" * 30, "\x1b[1m", "-", "NPU", "Chip", "²", "٣", "\0"])
        )
    lines = "".join(text).splitlines()
    mixed = "\n".join(data.draw(st.permutations(lines)))
    table = parse(mixed)
    assert len(table.npus) <= len(lines)
    for each in table.npus:
        assert each.npu >= 0
        assert each.memory >= 0
    logical(mixed)


@given(st.text(st.sampled_from("|/ 0159-NPUChip\n\t\x1b²"), max_size=300))
def test_any_text_at_all_gives_no_traceback(text):
    parse(text)
    logical("Chip Logic ID\n" + text)
