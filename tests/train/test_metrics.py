"""What a run leaves for people to look at: one run with every habit switched on, its files read back."""

import contextlib
import json
import resource
import subprocess
import sys

import pytest

from headway import chrome
from headway.errors import JobError
from headway.plan import plan as plans
from headway.trace import Span
from headway.train.metrics import Lines
from headway.train.rate import learning_rate

pytestmark = pytest.mark.dist
JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 300, positions: 64}
parallel: {pipeline: 2, data: 1, unit_bytes: 0}
data: {sequence_length: 16, path: pair, tokenizer: tokenizer.json, validation: 0.2, workers: 2}
optimizer: {lr: 1e-2, schedule: wsd, warmup_steps: 4, decay_steps: 20}
train: {steps: 60, global_batch: 16, microbatch: 4, evaluate_every: 30}
run: {directory: run}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a run on a token file of a tokenizer file, with the trace of its fifth step."""
    library = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("habits")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 200)
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["the quick brown fox"], library.trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet)
    )
    made.save(str(folder / "tokenizer.json"))
    (folder / "job.yaml").write_text(JOB)
    _headway(folder, "data", "prepare", "text.txt", "--output", "pair", "--tokenizer", "tokenizer.json")
    _headway(folder, "train", "job.yaml", "--profile", "5")
    return folder / "run"


def _headway(folder, *words):
    command = [sys.executable, "-m", "headway", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def _lines(run, key):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line[key] for line in lines if key in line}


def test_the_rates_logged_are_the_shape_that_was_asked_for(run):
    optimizer = plans.read(run / "plan.json").optimizer
    assert _lines(run, "learning_rate") == {step + 1: learning_rate(optimizer, step, 60) for step in range(60)}


def test_the_event_files_hold_what_the_lines_say(run):
    pytest.importorskip("tensorboard")
    code = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}))
"""
    command = [sys.executable, "-c", code, str(run / "tensorboard")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    events = json.loads(done.stdout)
    for key, tag in {
        "loss": "loss/training",
        "validation_loss": "loss/validation",
        "grad_norm": "optimizer/gradient_norm",
        "learning_rate": "optimizer/learning_rate",
        "tokens_per_second": "speed/tokens_per_second",
        "mfu": "speed/mfu",
        "memory": "memory/resident_bytes",
        "seconds": "step_seconds/measured",
        "predicted_seconds": "step_seconds/predicted",
    }.items():
        written = {int(step): value for step, value in events.pop(tag).items()}
        assert written == pytest.approx(_lines(run, key), rel=1e-6), tag  # the files hold float32
    assert events == {}


def test_the_step_that_was_asked_for_is_the_one_in_the_measured_trace(run):
    assert json.loads((run / "summary.json").read_text())["traced_step"] == 5
    spans = [span for span in chrome.read(run / "measured.trace.json.gz").spans if span.rank == 0]
    assert max(s.end for s in spans) - min(s.start for s in spans) <= _lines(run, "seconds")[5]


@pytest.mark.parametrize(
    ("profile", "steps", "kept"), [("last", 6, 6), (4, 6, 4), (1, 6, 1), (6, 6, 6), (5, 3, 3)], ids=str
)
def test_the_last_step_up_to_the_one_that_was_asked_for_is_kept_also_where_the_run_ends_before_it(
    tmp_path, plan_of, profile, steps, kept
):
    from headway.train.loop import StepResult
    from headway.train.metrics import Metrics

    metrics = Metrics(plan_of(run={"profile": profile}, train={"steps": 6}), tmp_path, 1, lambda _: None)
    for step in range(steps):
        spans = (Span(1, "compute", f"0F{step}", 0.0, 1.0),)
        metrics.step(StepResult(step, 1.0, 1.0, 1e-3, finite=True, stop=False, tokens=1, seconds=1.0, spans=spans))
    assert metrics.traced.spans[0].operation == f"0F{kept - 1}"
    assert metrics.summary(interrupted=False)["traced_step"] == kept


def test_the_comparison_of_the_run_finds_counts_and_bytes_equal(run):
    document = json.loads(_headway(run.parent, "compare", "run", "--json").stdout)
    assert document["agree"]
    assert document["traced_step"] == 5
    assert document["memory"]["measured"]["0"]["activations"] > 0


def test_a_model_of_a_tokenizer_file_writes_a_sample_too_and_more_when_asked(run):
    sample = json.loads((run / "summary.json").read_text())["sample"]
    assert sample.startswith("def ")
    assert len(sample) > 100
    said = _headway(run.parent, "generate", "run", "--prompt", "the quick", "--tokens", "20").stdout
    assert said.startswith("the quick")


def test_without_tensorboard_one_line_says_so_and_there_are_no_event_files(tmp_path, plan_of, capsys, monkeypatch):
    from headway.cli.train import prepare
    from headway.train.board import board

    monkeypatch.setitem(sys.modules, "tensorboard", None)  # what an import finds where it is not installed
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with contextlib.ExitStack() as stack:
        run = prepare(plan_of(run={"directory": str(tmp_path / "run")}), "", stack)
    lines = [line for line in capsys.readouterr().err.splitlines() if "TensorBoard" in line]
    assert lines == ["no event files for TensorBoard: it is not installed (pip install tensorboard)"]
    assert board(run / "tensorboard") is None
    assert not (run / "tensorboard").exists()


@contextlib.contextmanager
def _small_files(size):
    """Files of this process end at so many bytes, as on a full disk: those of the test runner too, so not longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_does_not_fit_on_the_disk_is_left_out_whole_and_the_error_says_what_helps(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with contextlib.closing(Lines(path)) as lines:
        lines.add({"step": 1})
        too_large = pytest.raises(
            JobError, match=r"metrics\.jsonl cannot be written \(File too large\)\. Free some space"
        )
        with too_large, _small_files(20):
            lines.add({"step": 2, "loss": 1.25})
    assert path.read_text() == '{"step": 1}\n'


def test_what_is_left_of_a_line_is_cut_off_before_the_next_is_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for before, whole in (
        ("", ""),
        ('{"step": 1}\n', '{"step": 1}\n'),
        ('{"step": 1}\n{"st', '{"step": 1}\n'),
        ('{"', ""),
    ):
        path.write_text(before)
        with contextlib.closing(Lines(path)) as lines:
            lines.add({"step": 2})
        assert path.read_text() == whole + '{"step": 2}\n'
