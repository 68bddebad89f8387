"""nvidia-smi's answers are read as old and new drivers write them; what is none gives no traceback."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.launch.doctor.nvidia_smi import QUERY, Gpu, cuda, gpus, topology

MATRIX = (Path(__file__).parents[2] / "golden" / "nvidia-smi-topo.txt").read_text(encoding="utf-8")
LISTED = (
    "0, NVIDIA H100 80GB HBM3, 550.54.15, 81559, 4, Default, Disabled, 0\n"
    "1, NVIDIA H100 80GB HBM3, 550.54.15, 81559, 61234, Exclusive_Process, Enabled, 3\n"
)
HEAD = "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |"
MIB = 2**20


def test_the_matrix_has_gpus_and_cards_and_no_affinities():
    found = topology(MATRIX)
    assert found.gpus == ("GPU0", "GPU1")
    assert found.nics == ("NIC0", "NIC1")
    assert found.cells["GPU0", "GPU1"] == "NV18"
    assert found.cells["GPU1", "NIC1"] == "PIX"
    assert found.without_nvlink == ()


def test_the_nearest_card_is_told_by_the_name_in_the_legend():
    found = topology(MATRIX)
    assert found.names == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert found.nearest("GPU0") == ("mlx5_0", "PIX")
    assert found.nearest("GPU1") == ("mlx5_1", "PIX")


def test_old_drivers_name_the_cards_in_the_header():
    text = MATRIX.partition("\nLegend")[0].replace("NIC0", "mlx5_0").replace("NIC1", "mlx5_bond_1")
    found = topology(text)
    assert found.nics == ("mlx5_0", "mlx5_bond_1")
    assert found.nearest("GPU1") == ("mlx5_bond_1", "PIX")


def test_a_host_without_cards_has_no_nearest_one_and_pairs_without_nvlink_are_told():
    found = topology("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X \t32-63\n")
    assert found.nearest("GPU0") is None
    assert found.without_nvlink == (("GPU0", "GPU1"),)


def test_the_list_has_memory_in_bytes_and_what_is_wrong_with_a_gpu():
    found, odd = gpus(LISTED)
    assert odd == ()
    assert found[0] == Gpu(
        0, "NVIDIA H100 80GB HBM3", "550.54.15", 81559 * MIB, 4 * MIB, "Default", mig=False, uncorrected=0
    )
    assert (found[1].mig, found[1].uncorrected, found[1].compute_mode) == (True, 3, "Exclusive_Process")


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "", "²"])
def test_errors_that_are_not_counted_are_none(word):
    found, odd = gpus(LISTED.replace("Disabled, 0", f"Disabled, {word}"))
    assert found[0].uncorrected is None
    assert odd == ()


def test_lines_that_are_no_gpu_are_said():
    found, odd = gpus("Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n" + LISTED)
    assert len(found) == 2
    assert odd[0].startswith("Unable to determine")
    assert gpus(LISTED.replace("81559", "much"))[0] == ()


def test_the_head_says_the_newest_cuda_of_the_driver():
    assert cuda(HEAD) == (12, 4)
    assert cuda("CUDA Version: N/A") is None


@given(st.data())
def test_a_matrix_with_signs_mixed_up_gives_no_traceback(data):
    text = list(MATRIX)
    for _ in range(data.draw(st.integers(1, 10))):
        where = data.draw(st.integers(0, len(text) - 1))
        text[where] = data.draw(st.sampled_from(["\t", "", "\n", "GPU0", "\x1b[", "Affinity", "X", "NIC0: ", "9" * 40]))
    found = topology("".join(text))
    for gpu in found.gpus:
        found.nearest(gpu)
    assert set(found.without_nvlink) <= {(a, b) for a in found.gpus for b in found.gpus}


@given(st.text(st.sampled_from("0159,. \tGPUX\nNA[]²"), max_size=200))
def test_any_text_at_all_gives_no_traceback(text):
    topology("\tGPU0\tGPU1\n" + text)
    found, odd = gpus(text)
    assert len(found) + len(odd) <= len(text.splitlines()) + 1
    cuda("CUDA Version: " + text)


def test_as_many_fields_are_asked_for_as_are_read():
    assert len(QUERY) == len(LISTED.splitlines()[0].split(","))
