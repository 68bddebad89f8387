"""Samples: which tokens each data rank reads at each step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.samples import IGNORE, Samples, Slice
from headway.data.stream import stream


def _samples(num_tokens, sequence_length=4, seed=0):
    return Samples(stream(np.arange(num_tokens, dtype=np.uint16), (0, num_tokens)), sequence_length, seed)


def _parts(data_size, microbatch, num_microbatches):
    return [Slice(rank, data_size, microbatch, num_microbatches) for rank in range(data_size)]


@pytest.mark.parametrize(("tokens", "expected"), [(0, 0), (4, 0), (5, 1), (8, 1), (9, 2), (13, 3), (14, 3)])
def test_an_epoch_has_as_many_samples_as_fit(tokens, expected):
    assert _samples(tokens).num_samples == expected


def test_a_sample_is_a_window_whose_targets_are_shifted_by_one():
    part = Slice(0, 1, 3, 1)
    batch = _samples(13).train_batch(0, part)
    assert (batch.tokens.shape, batch.tokens.dtype, batch.targets.dtype) == ((1, 3, 4), np.int64, np.int64)
    assert sorted(map(tuple, batch.tokens[0].tolist())) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    assert (batch.targets == batch.tokens + 1).all()


def test_every_token_but_the_first_is_a_target_once_an_epoch():
    samples = _samples(41)
    targets = np.concatenate([samples.train_batch(step, Slice(0, 1, 2, 1)).targets.ravel() for step in range(5)])
    assert sorted(targets.tolist()) == list(range(1, 41))


@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 5), st.integers(0, 2**32))
def test_each_epoch_reads_every_sample_once(num_samples, global_batch, seed, skipped):
    samples = _samples(4 * num_samples + 1, seed=seed)
    steps = -(-3 * num_samples // global_batch)
    ids = np.concatenate([samples.sample_ids(step, global_batch) for step in range(steps)])
    for epoch in range(3):
        assert sorted(ids[epoch * num_samples : (epoch + 1) * num_samples].tolist()) == list(range(num_samples))
    assert len(samples.sample_ids(skipped, global_batch)) == global_batch  # any step can be asked for at once


def test_epochs_and_seeds_differ_and_asking_again_does_not():
    ids = {(seed, step): tuple(_samples(401, seed=seed).sample_ids(step, 100)) for seed in (0, 1) for step in (0, 1)}
    assert len(set(ids.values())) == 4
    assert tuple(_samples(401, seed=1).sample_ids(1, 100)) == ids[1, 1]


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_the_data_ranks_share_the_global_batch_in_headways_order(data_size, microbatch, num_microbatches):
    """Micro-batch j of data rank d holds the sequences of global micro-batch j·D + d."""
    parts = _parts(data_size, microbatch, num_microbatches)
    whole = np.arange(parts[0].global_batch).reshape(num_microbatches * data_size, microbatch)
    for d, part in enumerate(parts):
        assert part.places().tolist() == [whole[j * data_size + d].tolist() for j in range(num_microbatches)]


@pytest.mark.parametrize(("data_size", "microbatch", "num_microbatches"), [(2, 1, 3), (3, 2, 1), (1, 3, 2), (6, 1, 1)])
def test_every_layout_reads_the_same_global_batch(data_size, microbatch, num_microbatches):
    samples = _samples(101)
    parts = _parts(data_size, microbatch, num_microbatches)
    for step in (0, 3, 7):
        rows = np.empty((6, 4), np.int64)
        for part in parts:
            rows[part.places()] = samples.train_batch(step, part).tokens
        assert rows.tolist() == samples.train_batch(step, Slice(0, 1, 6, 1)).tokens[0].tolist()


@pytest.mark.parametrize(
    ("num_samples", "global_batch", "expected"), [(0, 2, 0), (1, 2, 1), (2, 2, 1), (3, 2, 2), (8, 2, 4), (99, 2, 4)]
)
def test_an_evaluation_reads_what_there_is_but_four_batches_at_most(num_samples, global_batch, expected):
    assert _samples(4 * num_samples + 1).num_validation_batches(global_batch) == expected


def test_validation_reads_in_file_order_and_fills_up_with_rows_that_do_not_count():
    samples = _samples(4 * 5 + 1)
    parts = _parts(data_size=2, microbatch=1, num_microbatches=2)
    first = [samples.validation_batch(0, part) for part in parts]
    assert [batch.tokens[:, 0, 0].tolist() for batch in first] == [[0, 8], [4, 12]]
    second = [samples.validation_batch(1, part) for part in parts]
    assert second[0].targets.tolist() == [[[17, 18, 19, 20]], [[IGNORE] * 4]]
    assert second[1].targets.tolist() == [[[IGNORE] * 4], [[IGNORE] * 4]]
    assert second[1].tokens.max() == 0


def test_validation_counts_every_sample_once():
    samples = _samples(4 * 7 + 1)
    parts = _parts(data_size=3, microbatch=1, num_microbatches=1)
    batches = [samples.validation_batch(i, part) for i in range(samples.num_validation_batches(3)) for part in parts]
    targets = np.concatenate([batch.targets.ravel() for batch in batches])
    assert sorted(targets[targets != IGNORE].tolist()) == list(range(1, 29))


@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 40))
def test_the_shape_of_a_batch_never_changes_not_at_an_epochs_end_nor_where_validation_runs_out(
    num_samples, data_size, microbatch, num_microbatches, step
):
    """Messages have the bytes that were planned at every step: a last batch is never short."""
    samples = _samples(4 * num_samples + 1)
    for part in _parts(data_size, microbatch, num_microbatches):
        indices = range(samples.num_validation_batches(part.global_batch))
        each = [samples.train_batch(step, part), *(samples.validation_batch(i, part) for i in indices)]
        assert {array.shape for batch in each for array in (batch.tokens, batch.targets)} == {
            (num_microbatches, microbatch, 4)
        }


def test_batches_are_arrays_that_torch_may_take_as_they_are():
    batch = _samples(41).train_batch(0, Slice(1, 2, 2, 2))
    for array in (batch.tokens, batch.targets):
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.base is None


def _read(steps, *, data_size, num_tokens=157, global_batch=6):
    """The rows of the global batch of each of `steps`, read by the data ranks of a run that has just been started."""
    runs = [(_samples(num_tokens, seed=5), part) for part in _parts(data_size, 1, global_batch // data_size)]
    read = []
    for step in steps:
        rows = np.empty((global_batch, 4), np.int64)
        for samples, part in runs:
            rows[part.places()] = samples.train_batch(step, part).tokens
        read.append(rows.tolist())
    return read


@pytest.mark.parametrize("before", [1, 2, 3, 6])
@pytest.mark.parametrize("after", [1, 2, 3, 6])
def test_ten_steps_are_four_and_after_a_new_start_six_over_an_epochs_end_and_on_another_data_axis(before, after):
    """The position is the step alone: 39 samples in an epoch, so that it ends in the middle of step 6's batch of 6."""
    whole = _read(range(10), data_size=1)
    assert _read(range(4), data_size=before) + _read(range(4, 10), data_size=after) == whole
    first = [tuple(row) for rows in whole for row in rows][:39]
    assert len(set(first)) == 39  # the first epoch reads each sample once, whoever was started in between
