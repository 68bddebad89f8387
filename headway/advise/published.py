"""Published: a training result that others measured, with all that was said about it, read from CSV files."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headway.errors import PlanError, nearest
from headway.units import Bytes, Seconds

PACKAGED = ("measured.csv.gz", "crashed_or_oom.csv.gz")
# No row can be predicted without these, so a file without one of them is no such file. All other columns may be absent.
REQUIRED = (
    "id", "source_group", "model", "layers", "hidden", "heads", "mlp", "vocab", "tied_embed", "seq_len", "gpu",
    "n_gpus", "tp", "pp", "gbs", "precision", "recompute",
)  # fmt: skip
WHOLE = (
    "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq_len", "gpus_per_node", "n_gpus", "tp", "pp", "vpp",
    "dp", "cp", "ep", "zero_group", "gbs", "mbs", "grad_accum",
)  # fmt: skip
FLAGS = {"tied_embed": 1, "seq_parallel": 1, "zero_stage": 3}  # whole numbers from 0 to this
REAL = ("gpu_mem_gb", "iter_s", "iter_s_derived", "tokens_s_gpu", "samples_s", "samples_s_gpu", "peak_mem_gb")
SHARES = ("nic_gbps_per_gpu", "mfu_pct", "hfu_pct", "tflops_per_gpu", "params_b")  # rounded figures, which may be 0.0
NUMBERS = (*WHOLE, *FLAGS, *REAL, *SHARES)
MEMORY_UNITS = {"GiB": Bytes(2**30), "GB": Bytes(10**9)}
UNSTATED, COMPUTED = "unstated", "formula"  # of `mem_kind`: the second was not measured
MEASURED = ("allocated", "reserved", "nvidia-smi", UNSTATED)


@dataclass(frozen=True, slots=True)
class Published:
    """One row of a file.

    `facts`: what the row says, column → text, without empty ones. `numbers`: those that are numbers, and those that
    follow from them by multiplication alone. `missing`: columns that the row itself calls missing (its column
    `missing`); they are in neither. `ran`: whether it finished steps. `seconds` of a step and `memory` as published,
    None where they were not measured; memory was measured as `memory_kind` says and published in `unit` (GiB where the
    row names none, but then its memory is not compared).
    """

    id: str
    source: str
    facts: Mapping[str, str]
    numbers: Mapping[str, float]
    missing: frozenset[str]
    ran: bool
    seconds: Seconds | None
    memory: Bytes | None
    memory_kind: str
    unit: Bytes

    @property
    def mfu(self) -> float | None:
        """Published model FLOPs utilisation as a fraction."""
        return self.numbers["mfu_pct"] / 100 if "mfu_pct" in self.numbers else None

    @property
    def unit_name(self) -> str:
        """The unit of its memory, as published."""
        return next(name for name, size in MEMORY_UNITS.items() if size == self.unit)

    def whole(self, column: str) -> int | None:
        """A whole number, None where the row has none."""
        return int(self.numbers[column]) if column in self.numbers else None


def packaged() -> list[Published]:
    """The rows that travel with Headway: those that ran, and those that did not."""
    folder = resources.files("headway.advise")
    return [row for name in PACKAGED for row in _rows(name, folder.joinpath(name).read_bytes())]


def read(paths: Iterable[Path]) -> list[Published]:
    """The rows of CSV files (also gzipped: `.csv.gz`). PlanError for what cannot be read, with row and column."""
    return [row for path in paths for row in _rows(str(path), _content(path))]


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise PlanError(f"{path} is a directory. Name the CSV files in it.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PlanError(f"there is no file {path}. Give CSV files with the columns of docs/validation.md.") from None
    except OSError as error:
        raise PlanError(f"{path} cannot be read ({error.strerror}).") from None


def _rows(name: str, content: bytes) -> Iterator[Published]:
    # one list of names, so that a quoted line break does not shift the numbers of lines
    reader = csv.reader(io.StringIO(_text(name, content), newline=""))
    try:
        header = next(reader, [])
        _check_header(name, header)
        found = False
        for values in reader:
            if any(value.strip() for value in values):
                found = True
                yield _row(f"{name}, line {reader.line_num}", header, values)
    except csv.Error as error:
        raise PlanError(f"{name} is not CSV at line {reader.line_num}: {error}.") from None
    if not found:
        raise PlanError(f"{name} has a header but no rows.")


def _text(name: str, content: bytes) -> str:
    try:
        if name.endswith(".gz"):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error):
        raise PlanError(f"{name} is not a whole gzip file.") from None
    except UnicodeDecodeError:
        raise PlanError(
            f"{name} is not text in UTF-8. Give CSV files with the columns of docs/validation.md."
        ) from None


def _check_header(name: str, header: list[str]) -> None:
    if not any(header):
        raise PlanError(f"{name} is empty: it has no header. Its first line names the columns: {', '.join(REQUIRED)} …")
    twice = sorted({column for column in header if header.count(column) > 1 and column})
    if twice:
        raise PlanError(f"{name} has the column '{twice[0]}' twice. Remove one of them.")
    for column in REQUIRED:
        if column not in header:
            hint = nearest(column, header) if len(header) < 100 else ""
            raise PlanError(
                f"{name} has no column '{column}', without which no row can be predicted "
                f"({len(header)} columns were read, with commas between them). {hint}".rstrip()
            )


def _row(place: str, header: list[str], values: list[str]) -> Published:
    if len(values) > len(header):
        raise PlanError(f"{place} has {len(values)} fields for {len(header)} columns. Quote texts that hold commas.")
    stripped = {column: value.strip() for column, value in zip(header, values, strict=False)}
    for column in ("id", "source_group"):
        if not stripped.get(column):
            raise PlanError(f"{place} has no {column}, which names it in the results.")
    missing = frozenset(stripped.pop("missing", "").split())
    facts = {column: value for column, value in stripped.items() if value and column not in missing}
    if missing:  # a row that calls itself incomplete has notes where others have numbers
        missing |= {column for column in NUMBERS if column in facts and not _is_number(facts[column])}
    name = facts["id"]
    numbers = _completed(
        {
            column: _number(place, name, column, facts[column])
            for column in NUMBERS
            if column in facts and column not in missing
        },
        missing,
    )
    kind, unit = facts.get("mem_kind", UNSTATED).lower(), _unit(place, name, facts.get("mem_unit", "GiB"))
    measured = "peak_mem_gb" in numbers and "mem_unit" in facts and kind in MEASURED
    return Published(
        name,
        facts["source_group"],
        facts,
        numbers,
        missing,
        facts.get("status", "ok").lower() == "ok",
        _seconds(numbers),
        Bytes(round(numbers["peak_mem_gb"] * unit)) if measured else None,
        kind,
        unit,
    )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def _number(place: str, row: str, column: str, text: str) -> float:
    where = f"{place}, row '{row}': {column}"
    if not _is_number(text):
        raise PlanError(f"{where} is no number: '{text}'.")
    value, is_whole = float(text), column in WHOLE or column in FLAGS
    if is_whole and value != int(value):
        raise PlanError(f"{where} is a whole number, got '{text}'.")
    if value < (1 if column in WHOLE else 0) or (value == 0 and column in REAL):
        raise PlanError(f"{where} is {'at least 1' if column in WHOLE else 'a number above 0'}, got '{text}'.")
    if column in FLAGS and value > FLAGS[column]:
        raise PlanError(f"{where} is 0 to {FLAGS[column]}, got '{text}'.")
    return value


def _unit(place: str, row: str, text: str) -> Bytes:
    if text not in MEMORY_UNITS:
        raise PlanError(f"{place}, row '{row}': mem_unit is one of {', '.join(MEMORY_UNITS)}, got '{text}'.")
    return MEMORY_UNITS[text]


def _completed(numbers: dict[str, float], missing: frozenset[str]) -> dict[str, float]:
    """With the one factor or the product that is lacking in tp · pp · dp · cp = n_gpus and mbs · dp · grad_accum = gbs.

    cp is 1 where a row does not name it: rows before context parallelism have no such column.
    """
    if "cp" not in missing:
        numbers = {"cp": 1.0, **numbers}
    for factors, product in ((("tp", "pp", "dp", "cp"), "n_gpus"), (("mbs", "dp", "grad_accum"), "gbs")):
        lacking = [each for each in (*factors, product) if each not in numbers]
        if len(lacking) != 1:
            continue
        known = math.prod(numbers[each] for each in factors if each in numbers)
        value = known if lacking == [product] else numbers[product] / known
        if value == int(value):
            numbers[lacking[0]] = value
    return numbers


def _seconds(numbers: Mapping[str, float]) -> Seconds | None:
    """Of a step: published, else derived by who made the file, else from the throughput here."""
    for column in ("iter_s", "iter_s_derived"):
        if column in numbers:
            return Seconds(numbers[column])
    if {"tokens_s_gpu", "gbs", "seq_len", "n_gpus"} <= numbers.keys():
        return Seconds(numbers["gbs"] * numbers["seq_len"] / (numbers["tokens_s_gpu"] * numbers["n_gpus"]))
    if {"samples_s", "gbs"} <= numbers.keys():
        return Seconds(numbers["gbs"] / numbers["samples_s"])
    if {"samples_s_gpu", "gbs", "n_gpus"} <= numbers.keys():
        return Seconds(numbers["gbs"] / (numbers["samples_s_gpu"] * numbers["n_gpus"]))
    return None
