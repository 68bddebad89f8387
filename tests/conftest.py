"""Fixtures that many tests share, and how hypothesis searches."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:  # `python -m pytest` puts it there, the script `pytest` does not
    sys.path.insert(0, str(ROOT))

# the same examples on every run: a red test stays red, a green one stays green
settings.register_profile("headway", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("headway")


def pytest_collection_modifyitems(config, items):
    """Where workers share the tests (pytest-xdist), the files that start processes come first: they take long."""
    if hasattr(config, "workerinput"):
        marks = ("dist", "docker", "slurm")
        slow = {item.path for item in items if any(map(item.get_closest_marker, marks))}
        items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def plan_of():
    """A function from sections of a job file to the plan, on a cluster that is the same on every machine."""
    from headway.plan.build import build
    from headway.plan.job import Job
    from headway.plan.read import decode

    return lambda **sections: build(decode(Job, {"cluster": "a100-80gb-hdr", **sections}, "job"))


@pytest.fixture(scope="session")
def docker_engine(tmp_path_factory):
    """The environment in which programs reach a Docker engine that was started for these tests."""
    from tests.launch.container.own_engine import engine

    with engine(tmp_path_factory.mktemp("docker")) as variables:
        yield variables
