"""Meeting: who exchanges something in an operation."""

import pytest

from headway.plan.meeting import group_edge, meeting, name
from headway.schedule.operation import parse

EIGHT = {"tensor": 2, "pipeline": 2, "data": 2, "split": "Ett|ttL"}  # rank = tensor + 2 data + 4 pipeline


@pytest.mark.parametrize(
    ("rank", "operation", "ranks", "edge"),
    [
        (1, "0F0", (0, 1), "{0,1}"),
        (1, "0SEND_F0", (1, 5), "1→5"),
        (5, "1RECV_F0", (1, 5), "1→5"),
        (7, "1SEND_B0", (7, 3), "7→3"),
        (3, "0RECV_B0", (7, 3), "7→3"),
        (5, "BEGIN", (5, 7), "{5,7}"),
        (6, "STEP", tuple(range(8)), "{0,1,2,3,4,5,6,7}"),
    ],
)
def test_neighbours_tensor_ranks_data_ranks_or_all_meet(plan_of, rank, operation, ranks, edge):
    plan = plan_of(parallel=EIGHT)
    assert meeting(plan, rank, parse(operation)) == ranks
    assert name(parse(operation), ranks) == edge


def test_an_edge_of_a_collective_is_its_ranks():
    assert group_edge((0, 2, 10)) == "{0,2,10}"
