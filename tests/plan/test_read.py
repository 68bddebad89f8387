"""Reading job files: YAML without traps, overrides, and messages that a user can act on."""

import pytest

from headway.errors import PlanError
from headway.plan import build, read
from headway.plan.job import Job
from tests.plan.wrong_jobs import WRONG_JOBS

# words of the libraries underneath, which tell a user of YAML nothing
JARGON = ["Field required", "Value error", "Input should", "after validation", "an object", "valid array", "Offload("]


def _job(tmp_path, text, *overrides):
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return read.job(path, overrides)


@pytest.mark.parametrize(("text", "says"), [case[1:] for case in WRONG_JOBS], ids=[case[0] for case in WRONG_JOBS])
def test_a_wrong_job_file_gets_one_message_with_the_key_and_a_remedy(tmp_path, text, says):
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as error:
        build.from_file(path)
    message = str(error.value)
    assert says in message
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert not [words for words in JARGON if words in message]


def test_an_empty_file_is_a_job_of_defaults(tmp_path):
    assert _job(tmp_path, "") == _job(tmp_path, "# nothing but a comment\n") == Job()


def test_an_empty_section_is_one_of_defaults(tmp_path):
    assert _job(tmp_path, "train:\n  # steps: 20\n") == Job()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E-4", 1e-4),
        ("5e8", 5e8),
        (".5", 0.5),
        ("3.", 3.0),
        ("+0.25", 0.25),
        ("1.5e+2", 150.0),
        ("2", 2.0),
    ],
)
def test_numbers_are_numbers_with_and_without_a_dot(tmp_path, text, value):
    lr = _job(tmp_path, f"optimizer: {{lr: {text}}}").optimizer.lr
    assert (lr, type(lr)) == (value, float)


@pytest.mark.parametrize(("text", "value"), [("20", 20), ("5e8", 500_000_000), ("2e2", 200), ("007", 7)])
def test_a_power_of_ten_is_a_count(tmp_path, text, value):
    steps = _job(tmp_path, f"train: {{steps: {text}}}").train.steps
    assert (steps, type(steps)) == (value, int)


@pytest.mark.parametrize("seed", [9007199254740993, 2**64 - 1, 123456789012345678901234567890])
def test_a_large_count_keeps_every_digit(tmp_path, seed):
    assert _job(tmp_path, f"train: {{seed: {seed}}}").train.seed == seed


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "2024-01-01", "1:30"])
def test_words_that_yaml_1_1_changes_stay_words(tmp_path, word):
    assert _job(tmp_path, f"data: {{path: {word}}}").data.path == word


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_booleans_are_those_of_yaml_1_2(tmp_path, word):
    assert _job(tmp_path, f"checkpoint: {{asynchronous: {word}}}").checkpoint.asynchronous is True


@pytest.mark.parametrize("word", ["null", "~", ""])
def test_nothing_is_null(tmp_path, word):
    assert _job(tmp_path, f"checkpoint:\n  directory: {word}\n").checkpoint.directory is None


@pytest.mark.parametrize(("text", "value"), [("4MiB", 4 * 2**20), ("64KiB", 65536), ("1000", 1000)])
def test_bytes_are_read_with_their_unit(tmp_path, text, value):
    assert _job(tmp_path, f"parallel: {{unit_bytes: {text}}}").parallel.unit_bytes == value


def test_sections_may_share_an_anchor(tmp_path):
    job = _job(tmp_path, "train: {seed: &n 3, steps: *n}\n")
    assert (job.train.seed, job.train.steps) == (3, 3)


def test_an_override_changes_one_key_and_makes_sections_that_are_not_there(tmp_path):
    job = _job(
        tmp_path,
        "train: {steps: 5, seed: 7}\n",
        "train.steps=20",
        "optimizer.lr=1e-4",
        "parallel.offload.optimizer=device",
        "model=gpt2",
        "data.path=a=b",
    )
    assert (job.train.steps, job.train.seed, job.optimizer.lr) == (20, 7, 1e-4)
    assert (job.model, job.data.path) == ("gpt2", "a=b")


def test_the_last_override_wins(tmp_path):
    assert _job(tmp_path, "", "train.steps=1", "train.steps=2").train.steps == 2


def test_an_override_may_be_any_yaml_value(tmp_path):
    job = _job(tmp_path, "", "optimizer.betas=[0.8, 0.9]", "model={preset: gpt2, layers: 2}")
    assert job.optimizer.betas == (0.8, 0.9)
    assert job.model == {"preset": "gpt2", "layers": 2}


def test_an_override_may_change_a_preset_that_is_named_or_the_defaults(tmp_path):
    job = _job(tmp_path, "cluster: h800-hpn\n", "cluster.fabric=dcn+ pods=2", "model.layers=2")
    assert job.cluster == {"preset": "h800-hpn", "fabric": "dcn+ pods=2"}
    assert job.model == {"preset": "gpt-tiny", "layers": 2}
    assert _job(tmp_path, "cluster: a.yaml\n", "cluster.fabric=hpn").cluster == {"preset": "a.yaml", "fabric": "hpn"}


def test_an_override_of_an_empty_section_fills_it(tmp_path):
    assert _job(tmp_path, "train:\n", "train.steps=3").train.steps == 3


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.steps", "--set train.steps: write it as section.key=value, like --set train.steps=20."),
        ("=3", "write it as section.key=value"),
        ("train..steps=3", "write it as section.key=value"),
        ("train.steps={", "--set train.steps={: '{' is not a YAML value."),
        ("train.steps.more=3", "steps is 5, not a section."),
        ("train.step=3", "unknown key 'step' in train. Did you mean 'steps'?"),
        ("train.steps=fast", "train.steps is 'fast', but should be"),
    ],
)
def test_a_wrong_override_is_refused_as_it_was_written(tmp_path, override, says):
    with pytest.raises(PlanError) as error:
        _job(tmp_path, "train: {steps: 5}\n", override)
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["nowhere.yaml", "nowhere/job.yaml"])
def test_a_file_that_is_not_there_is_refused_with_its_path(tmp_path, name):
    with pytest.raises(PlanError, match=r"there is no file .*Give the path of a job file") as error:
        read.job(tmp_path / name)
    assert name in str(error.value)


def test_a_folder_is_no_job_file(tmp_path):
    with pytest.raises(PlanError, match=r"cannot be read"):
        read.job(tmp_path)


def test_bytes_that_are_no_text_are_no_job_file(tmp_path):
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match=r"job\.yaml is not text in UTF-8"):
        read.job(tmp_path / "job.yaml")


def test_a_document_that_stands_for_a_billion_values_by_its_aliases_is_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(PlanError, match=r"job\.yaml stands for more than 1,000,000 values. Use fewer aliases"):
        _job(tmp_path, "\n".join(lines))


def test_a_document_that_is_nested_without_end_is_refused(tmp_path):
    with pytest.raises(PlanError, match=r"job\.yaml is nested too deeply to be read"):
        _job(tmp_path, f"model: {'[' * 5000}{']' * 5000}")
    with pytest.raises(PlanError, match=r"circular data"):
        _job(tmp_path, "data: &a {path: *a}")


def test_a_few_aliases_are_what_they_stand_for(tmp_path):
    assert _job(tmp_path, "train: {steps: &n 7, microbatch: 1, global_batch: *n}").train.global_batch == 7
