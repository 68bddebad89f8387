"""The matrix FLOPs that `work` counts are those that torch counts."""

import json
from pathlib import Path

import pytest

from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist


@pytest.mark.full
def test_planned_flops_equal_torchs_counter_under_math_attention(tmp_path):
    run_ranks(Path(__file__).parent / "count_flops.py", [str(tmp_path / "out.json")], 1, timeout=120)
    for name, (counted, planned) in json.loads((tmp_path / "out.json").read_text()).items():
        assert counted == planned, name
