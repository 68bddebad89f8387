"""headway data: prepare and inspect, for people and for machines, and what they refuse."""

import json

import pytest

from headway.cli.main import main


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with two texts and an empty file in `texts`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for name, content in {"a": "one", "b": "three", "empty": ""}.items():
        (tmp_path / "texts" / name).write_text(content)
    return tmp_path


def _run(capsys, line, status=0):
    assert main(["data", *line.split()]) == status
    return capsys.readouterr()


def test_what_was_prepared_can_be_inspected_and_both_say_the_same(folder, capsys):
    prepared = json.loads(_run(capsys, "prepare texts --output pair --append-end --json").out)
    inspected = json.loads(_run(capsys, "inspect pair --json").out)
    assert inspected == {
        "prefix": "pair",
        "dtype": "uint16",
        "documents": 2,
        "sequences": 2,
        "tokens": 10,
        "bytes": 20,
        "shortest": 4,
        "median": 5.0,
        "longest": 6,
        "least_token": 0,
        "largest_token": 116,
        "first_tokens": [*b"one\0three\0"],
    }
    assert prepared == inspected | {"vocabulary": 256, "skipped_files": 1, "texts_not_utf8": 0}
    assert {path.name for path in folder.iterdir()} == {"texts", "pair.bin", "pair.idx"}


def test_people_read_counts_and_what_to_do_next(folder, capsys):
    said = _run(capsys, "prepare texts --output pair.idx")
    assert "2 in 2 sequences (1 empty or binary files skipped)" in said.out
    assert "8 of uint16" in said.out
    assert "data: {path: pair, tokenizer: bytes} and a model.vocabulary of at least 256" in said.out
    assert said.err.splitlines()[-1] == "read 8 of 8 bytes"
    shown = _run(capsys, "inspect pair.bin")
    assert "3 shortest, 4 median, 5 longest" in shown.out
    assert "101 … 116" in shown.out
    assert shown.err == ""


def test_progress_without_a_terminal_is_a_few_lines(folder, capsys):
    for i in range(200):
        (folder / "texts" / f"n{i}").write_text("x" * 100)
    lines = _run(capsys, "prepare texts --output pair --json").err.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "read 20,008 of 20,008 bytes"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("prepar texts", "no verb of data is called 'prepar'. Did you mean 'prepare'?"),
        ("prepare texts", "--output"),
        ("prepare --output x", "TEXT"),
        ("prepare nowhere --output x", "there is no file or folder nowhere"),
        ("prepare texts/empty --output x", "texts/empty has no text in it"),
        ("prepare texts --output texts", "texts is a folder. Name a prefix in it"),
        ("prepare texts --output x --tokenizer none.json", "there is no tokenizer file none.json"),
        ("inspect nowhere", "there is no file nowhere.idx"),
        ("inspect texts/a", "there is no file texts/a.idx"),
    ],
)
def test_a_users_mistake_exits_2_with_one_message_on_stderr(folder, line, said, capsys):
    printed = _run(capsys, line, status=2)
    assert printed.out == ""
    assert said in printed.err
    assert "Traceback" not in printed.err


def test_a_damaged_pair_exits_2_with_its_numbers(folder, capsys):
    _run(capsys, "prepare texts --output pair")
    (folder / "pair.bin").write_bytes(b"short")
    assert "pair.bin is cut short: it has 5 bytes, but pair.idx says 16" in _run(capsys, "inspect pair", status=2).err


@pytest.mark.parametrize("verb", ["data", "data prepare", "data inspect"])
def test_each_help_has_an_example(verb, capsys):
    assert main([*verb.split(), "--help"]) == 0
    assert f"headway {verb} " in capsys.readouterr().out.partition("Example:")[2]


def test_data_that_does_not_fit_the_model_ends_a_training_before_anything_is_made(folder, capsys):
    _run(capsys, "prepare texts --output pair")
    for path, more, said in (
        ("pair", "vocabulary: 100", "bytes need a vocabulary of 256"),
        ("pair, tokenizer: none", "vocabulary: 100", "holds the token 116, but model.vocabulary 100 ends at 99"),
        ("pair", "vocabulary: 256", "data.sequence_length 256 needs at least 257"),
    ):
        (folder / "job.yaml").write_text(f"model: {{preset: gpt-tiny, {more}}}\ndata: {{path: {path}}}\n")
        assert main(["train", "job.yaml"]) == 2
        assert said in capsys.readouterr().err
    assert not (folder / "runs").exists()
