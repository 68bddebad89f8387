"""The keeper: what a rank says of itself while it waits for the others to save."""

import pytest
import torch.distributed as dist

from headway.train.keeper import Keeper
from headway.train.metrics import Metrics
from headway.train.pulse import Pulse
from headway.train.saver import Saver
from headway.train.watch import Watch
from tests.train.test_saver import Words, _stage

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("one_thread")]


class Noting(Pulse):
    """A pulse that keeps what was waited for."""

    def __init__(self):
        super().__init__()
        self.noted = {}

    def wait(self, awaited):
        if awaited is not None:
            self.noted[awaited[0]] = awaited[1]
        super().wait(awaited)


@pytest.fixture
def alone():
    """This process as a job of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_whoever_waits_for_a_save_says_for_whom_so_that_the_rank_that_does_not_come_is_blamed(tmp_path):
    stage, pulse, store = _stage(), Noting(), Words()
    watch = Watch(stage.plan, 0, pulse, lambda: store)
    saver = Saver(tmp_path, 0, 1, lambda: store, keep=2)
    metrics = Metrics(stage.plan, tmp_path, 1, print)  # not rank 0: it writes nothing
    keeper = Keeper(stage.plan, stage, saver, watch, metrics, samples=9)
    stage.step += 1
    keeper.told_to_stop()
    saver.close()
    assert pulse.noted == {"word of what each rank keeps": (0,), "word that all have written": (0,)}
