"""headway generate: text from the weights that a run left."""

import math
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.errors import PlanError

if TYPE_CHECKING:
    from headway.data.tokenizer import Tokenizer


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--prompt", metavar="TEXT", help="What the text begins with.  [a new document]")
@click.option("--tokens", type=click.IntRange(min=1), default=200, metavar="N", help="Tokens to write.  [200]")
@click.option("--temperature", type=float, default=0.8, metavar="T", help="0: always the likeliest token.  [0.8]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, metavar="N", help="Of the random choice.  [0]")
@click.option("--tokenizer", metavar="FILE", help="A tokenizer.json, or bytes.  [the job's data.tokenizer]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the text.")
def generate(
    *,
    run: Path,
    prompt: str | None,
    tokens: int,
    temperature: float,
    seed: int,
    tokenizer: str | None,
    as_json: bool,
) -> None:
    """Write text from RUN: a directory that `headway train` made, or a model.safetensors out of one.

    It ends where the model ends the document, or after N tokens.

    \b
    Example:
      headway generate runs/stdlib-20261129-120000 --prompt "def "
    """
    from headway.cli.show import print_json
    from headway.data import tokenizer as tokenizers
    from headway.report.run import weights

    if not 0 <= temperature < math.inf:
        raise PlanError(f"--temperature is {temperature}, but must be 0 or more. Use 0.8, or 0 for the likeliest.")
    file = weights(run)

    from headway.train import generate as written
    from headway.train.weights import read

    model = read(file)
    by = _tokenizer(tokenizer or model.tokenizer)
    tokenizers.check_vocabulary(f"tokenizer {tokenizer or model.tokenizer}", by.vocabulary, model.spec.vocabulary)
    end = tokenizers.end_of(by)
    begin = _prompt(by, prompt, end, model.sequence_length)
    sampled = written.generate(
        model.spec, model.tensors, begin, context=model.sequence_length, temperature=temperature, seed=seed
    )
    found = takewhile(lambda token: token != end, islice(sampled, tokens))
    if as_json:
        numbers = list(found)
        text = "".join(tokenizers.texts(by, numbers))
        print_json({"weights": str(file), "prompt": prompt, "text": text, "tokens": numbers, "seed": seed})
        return
    click.echo(prompt or "", nl=False)
    for piece in tokenizers.texts(by, found):
        click.echo(piece, nl=False)
    click.echo()


def _tokenizer(name: str) -> "Tokenizer":
    from headway.data.tokenizer import NONE, load

    if name == NONE:
        raise PlanError(
            f"the run's data.tokenizer is {NONE}, so nobody knows the text of its tokens. "
            f"Name the tokenizer.json that made them: --tokenizer FILE."
        )
    return load(name, Path())


def _prompt(tokenizer: "Tokenizer", prompt: str | None, end: int | None, longest: int) -> list[int]:
    """The tokens to begin with: the prompt's, or the end of a document, after which a new one begins."""
    if prompt is None:
        if end is None:
            raise PlanError("the tokenizer has no token that ends a document. Give a beginning: --prompt TEXT.")
        return [end]
    tokens: list[int] = tokenizer.encode(prompt.encode()).tolist()
    if not tokens:
        raise PlanError("--prompt is empty. Give it some text, or leave it out to begin a new document.")
    if len(tokens) > longest:
        raise PlanError(
            f"--prompt has {len(tokens)} tokens, but the model was trained on sequences of {longest} "
            f"(data.sequence_length). Shorten it to {longest} tokens."
        )
    return tokens
