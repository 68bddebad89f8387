"""headway generate: text from weights, the same every time, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.main import main

pytestmark = pytest.mark.dist
ROOT = Path(__file__).parent.parent.parent
# leaves the first weights of a small model, and what plain PyTorch finds likeliest after "ab", token by token
MADE = """
import json, sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[2])
from reference import Reference
from headway.plan.build import build
from headway.plan.job import Data, Job
from headway.train import weights
sizes = {"layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": 260, "positions": 12, "tied": False}
plan = build(Job(model=sizes, data=Data(sequence_length=8, tokenizer=sys.argv[3])))
reference = Reference(plan)
weights.write(Path(sys.argv[1]), {name: value.detach() for name, value in reference.p.items()}, plan)
tokens = list(b"ab")
with torch.no_grad():
    for _ in range(30):
        tokens.append(int(reference.logits(torch.tensor([tokens[-8:]]))[0, -1].argmax()))
print(json.dumps(tokens[2:]))
"""


def _make(file, tokenizer="bytes"):
    words = [sys.executable, "-c", MADE, str(file), str(ROOT / "tests" / "train"), tokenizer]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model's file, and the likeliest tokens after `ab`."""
    file = tmp_path_factory.mktemp("made") / "model.safetensors"
    return file, _make(file)


@pytest.fixture
def generate(capsys):
    """A function: exit status, stdout and stderr of `headway generate` with these words."""

    def call(*words):
        status = main(["generate", *map(str, words)])
        return (status, *capsys.readouterr())

    return call


def test_the_likeliest_tokens_are_those_of_plain_pytorch_beyond_the_context_too(made, generate):
    file, likeliest = made
    status, out, err = generate(file, "--prompt", "ab", "--tokens", 30, "--temperature", 0, "--json")
    assert status == 0, err
    written = json.loads(out)["tokens"]
    assert written == (likeliest[: likeliest.index(0)] if 0 in likeliest else likeliest)
    assert len(written) > 8


def test_a_seed_writes_the_same_again_and_another_seed_something_else(made, generate):
    texts = [generate(made[0], "--tokens", 20, "--seed", seed)[1] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) > 5


def test_the_text_begins_with_the_prompt(made, generate):
    _, said, _ = generate(made[0], "--prompt", "ab", "--tokens", 5)
    assert said.startswith("ab")
    assert said.endswith("\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prompt", ""], "--prompt is empty. Give it some text, or leave it out"),
        (["--prompt", "123456789"], "--prompt has 9 tokens, but the model was trained on sequences of 8"),
        (["--temperature", "-1"], "--temperature is -1.0, but must be 0 or more."),
        (["--temperature", "nan"], "--temperature is nan, but must be 0 or more."),
        (["--tokens", "0"], "--tokens"),
        (["--tokenizer", "none"], "nobody knows the text of its tokens. Name the tokenizer.json"),
        (["--tokenizer", "missing.json"], "there is no tokenizer file missing.json"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_remedy(made, generate, words, said):
    status, out, err = generate(made[0], *words)
    assert (status, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("content", [b"no model", b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_that_is_no_models_is_refused_by_name(tmp_path, generate, content):
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    status, _, err = generate(file)
    assert status == 2
    assert f"{file} " in err


def test_a_model_of_a_tokenizer_file_writes_its_tokens(tmp_path, generate, monkeypatch):
    library = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["a", "b", *(f"w{i}" for i in range(258))])}
    made = library.Tokenizer(library.models.WordLevel(words))
    made.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    made.save(str(tmp_path / "words.json"))
    monkeypatch.chdir(tmp_path)
    _make("model.safetensors", "words.json")
    status, out, err = generate("model.safetensors", "--prompt", "a b", "--tokens", 4, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert [words[word] for word in document["text"].split()] == document["tokens"]
    assert len(document["tokens"]) == 4
    assert "has no token that ends a document. Give a beginning: --prompt" in generate("model.safetensors")[2]


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path, made, generate):
    from tokenizers import Tokenizer, models

    words = {f"word{i}": i for i in range(300)}
    Tokenizer(models.WordLevel(words, unk_token="word0")).save(str(tmp_path / "large.json"))
    status, out, err = generate(made[0], "--tokenizer", tmp_path / "large.json", "--prompt", "word299")
    assert (status, out) == (2, "")
    assert "has 300 tokens, but model.vocabulary is 260." in err
