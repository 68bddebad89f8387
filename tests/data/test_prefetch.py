"""Reading ahead: the same batches in the same order whatever the number of threads, and a clean end however it ends."""

import random
import threading
import time

import numpy as np
import pytest

from headway.data.prefetch import ahead
from headway.data.samples import Samples, Slice
from headway.data.stream import stream


def _threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read ahead")]


def _slowly(value):
    time.sleep(random.Random(value).random() / 100)  # a later one is often ready first
    return value


@pytest.mark.parametrize("workers", [0, 1, 2, 4, 9])
def test_the_order_is_that_of_the_steps_whoever_is_ready_first(workers):
    with ahead(_slowly, first=0, end=30, workers=workers) as values:
        assert list(values) == list(range(30))
    assert not _threads()


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 4, 7])
def test_batches_are_those_of_no_thread_over_an_epochs_end_and_from_any_step(workers, first):
    """39 samples in an epoch, which ends in the middle of step 6's batch of 6."""
    part, samples = Slice(0, 1, 2, 3), Samples(stream(np.arange(157), (0, 157)), 4, seed=5)

    def read(step):
        return samples.train_batch(step, part).tokens.tolist()

    with ahead(read, first=first, end=15, workers=workers) as batches:
        assert list(batches) == [read(step) for step in range(first, 15)]


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_is_read_ahead_than_there_are_workers(workers):
    begun = []

    def read(step):
        begun.append(step)
        return step

    with ahead(read, first=0, end=50, workers=workers) as values:
        for value in values:
            time.sleep(0.002)
            assert max(begun) <= value + workers
    assert sorted(begun) == list(range(50))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_is_raised_as_itself_where_its_value_would_have_come(workers):
    def read(step):
        if step == 3:
            raise OSError(5, "the disk is gone")
        return step

    with ahead(read, first=0, end=9, workers=workers) as values:
        assert [next(values), next(values), next(values)] == [0, 1, 2]
        with pytest.raises(OSError, match="the disk is gone"):
            next(values)
    assert not _threads()


def test_leaving_early_drops_what_has_not_begun_and_ends_the_threads():
    def interrupted():
        with ahead(_slowly, first=0, end=10**9, workers=2) as values:
            next(values)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not _threads()


def test_nothing_to_read_is_nothing():
    with ahead(_slowly, first=5, end=5, workers=2) as values:
        assert list(values) == []


def test_reading_begins_before_the_first_batch_is_asked_for():
    begun = threading.Event()

    def read(step):
        begun.set()
        return step

    with ahead(read, first=0, end=3, workers=1) as batches:
        assert begun.wait(5)
        assert list(batches) == [0, 1, 2]
