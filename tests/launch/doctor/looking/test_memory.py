"""Memory within the limits of control groups of both versions: a container's, a Slurm job's, and none."""

import pytest

from headway import env
from headway.launch.doctor.looking.memory import look

GIB = 2**30


def _tree(root, cgroup, **groups):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal: 1 kB\nMemAvailable:    2097152 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for place, files in groups.items():
        path = root / "sys/fs/cgroup" / place
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name).write_text(f"{text}\n")


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(env, "machine_memory", lambda: 4 * GIB)


@pytest.mark.usefixtures("machine")
def test_without_groups_all_memory_counts(tmp_path):
    _tree(tmp_path, "0::/\n", **{"": {"memory.max": "max", "memory.current": "7"}})
    assert look(tmp_path) == (4 * GIB, 2 * GIB)


@pytest.mark.usefixtures("machine")
def test_a_containers_limit_counts_and_its_cache_is_not_taken_for_used(tmp_path):
    files = {"memory.max": GIB, "memory.current": GIB - 100, "memory.stat": f"anon 5\ninactive_file {GIB // 2}"}
    _tree(tmp_path, "0::/\n", **{"": files})
    assert look(tmp_path) == (GIB, GIB // 2 + 100)


@pytest.mark.usefixtures("machine")
def test_the_narrowest_group_around_a_slurm_job_counts(tmp_path):
    outer, inner = {"memory.max": GIB, "memory.current": GIB // 4}, {"memory.max": "max", "memory.current": 5}
    _tree(tmp_path, "0::/slurm/job_7\n", **{"slurm": outer, "slurm/job_7": inner})
    assert look(tmp_path) == (GIB, 3 * GIB // 4)


@pytest.mark.usefixtures("machine")
def test_groups_of_the_first_version_are_known(tmp_path):
    files = {"memory.limit_in_bytes": GIB, "memory.usage_in_bytes": GIB // 2, "memory.stat": "total_inactive_file 0"}
    _tree(tmp_path, "12:cpu:/x\n5:memory:/docker/1f\n", **{"memory/docker/1f": files})
    assert look(tmp_path) == (GIB, GIB // 2)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("text", ["", ":", "::::", "0::/../../etc\n", "0::" + "/x" * 99, "\x00"])
def test_odd_groups_give_no_traceback(tmp_path, text):
    _tree(tmp_path, text)
    assert look(tmp_path) == (4 * GIB, 2 * GIB)


def test_this_machine_has_some_memory_left():
    total, available = look()
    assert 0 < available <= total <= env.machine_memory()
