"""From a published row to the outline of its prediction, or what the row lacks for one: nothing is guessed."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from headway.advise.published import Published
from headway.cluster.presets import device, of_devices
from headway.cluster.spec import Cluster, Device
from headway.errors import PlanError
from headway.model.spec import Family, ModelSpec, complete
from headway.placement import Tier
from headway.schedule.families import CHUNKS, FAMILIES
from headway.sim.outline import Outline, Recompute
from headway.stack.spec import AttentionKernel, Overlap, Stack, preset, presets
from headway.units import BytesPerSecond, Dtype

Word = TypeVar("Word", bound=str)
Mlp = Literal["gelu", "swiglu"]
GENERIC = "generic"  # the stack of a framework that Headway does not know
ROUNDING = 0.01  # of the global batch: how far it may be from whole micro-batches
_PRODUCTS = {"fp16": Dtype.FLOAT16, "bf16": Dtype.BFLOAT16, "fp8": Dtype.FLOAT8}
_NO_NETWORK = BytesPerSecond(1e9)  # of a job on one node: a link has a bandwidth, but nothing crosses this one


@dataclass(frozen=True, slots=True)
class Lacking:
    """Why a row cannot be predicted, in words that many rows share: `no vocab`, `unknown gpu: TPUv3 core`."""

    reason: str


class _LackError(Exception):
    """What a row lacks, on its way to `outline`."""


def outline(row: Published) -> Outline | Lacking:
    """What a prediction asks of `row`; docs/validation.md lists which empty columns have a meaning."""
    try:
        return _outline(row)
    except _LackError as error:
        return Lacking(str(error))


def knows_framework(row: Published) -> bool:
    """Whether the row's framework has a stack of its own."""
    return _framework(row) in presets()


def stack_of(row: Published) -> Stack:
    """The software that ran `row`: its framework's stack, changed by what the row says about it.

    `detail` and `notes` are read: "no torch.compile" is the framework's eager stack where it has one; "async TP" hides
    tensor ranks' collectives; "no overlap of gradient …" takes that overlap away. An unknown framework is `generic`.
    """
    name = _framework(row) if knows_framework(row) else GENERIC
    said = f"{row.facts.get('detail', '')}; {row.facts.get('notes', '')}".lower()
    if "no torch.compile" in said and f"{name}-eager" in presets():
        name = f"{name}-eager"
    stack = preset(name)
    if "rowwise" in said:
        why = (
            "the row says: row-wise scales, whose kernels of 2024 were CUTLASS's; seen: as fast as products in bfloat16"
        )
        stack = dataclasses.replace(stack, narrow_share=0.55, reasons={**stack.reasons, "narrow_share": why})
    if re.search(r"(?<!no )\basync tp\b", said):
        stack = _overlapping(stack, stack.overlaps | {"tensor"}, "the row says: async TP")
    if "no overlap of gradient" in said:
        stack = _overlapping(stack, stack.overlaps - {"gradients"}, "the row says: no overlap of gradients")
    return stack


def cluster_of(row: Published) -> Cluster:
    """The machines that ran `row`: as many whole nodes as its ranks fill."""
    ranks = _whole(row, "n_gpus")
    per_node = row.whole("gpus_per_node") or (1 if ranks == 1 else _whole(row, "gpus_per_node"))
    nodes = -(-ranks // per_node)
    network = _NO_NETWORK if nodes == 1 else BytesPerSecond(_number(row, "nic_gbps_per_gpu") * 1e9 / 8)
    if not network:
        raise _LackError("no nic_gbps_per_gpu")
    inside = row.facts.get("intra_link", "")
    each = _device(row)
    try:
        return of_devices(each, nodes=nodes, per_node=per_node, inside=inside, network=network)
    except PlanError:
        raise _LackError(f"unknown intra_link: {inside}") from None


def _framework(row: Published) -> str:
    return row.facts.get("framework", "").lower()


def _outline(row: Published) -> Outline:
    _refuse_what_cannot_be_predicted(row)
    tensor, pipeline, context = _whole(row, "tp"), _whole(row, "pp"), _whole(row, "cp")
    data, ranks = _whole(row, "dp"), _whole(row, "n_gpus")
    if tensor * pipeline * context * data != ranks:
        raise _LackError("tp × pp × dp × cp is not n_gpus")
    schedule, chunks = _schedule(row, pipeline)
    recompute: Recompute = _one_of(row, "recompute", get_args(Recompute))
    stack, cluster = stack_of(row), cluster_of(row)
    return Outline(
        model=_model(row, tensor),
        cluster=cluster,
        stack=stack,
        microbatch=_whole(row, "mbs"),
        microbatches=_microbatches(row),
        sequence=_sequence(row, context),
        tensor=tensor,
        context=context,
        pipeline=pipeline,
        data=data,
        chunks=chunks,
        schedule=schedule,
        sequence_parallel=bool(_whole(row, "seq_parallel")) if tensor > 1 else False,
        zero=_whole(row, "zero_stage") if data * context > 1 else 0,
        zero_ranks=_zero_ranks(row, data * context),
        optimizer_on=_tier(row, "optimizer"),
        params_on=_tier(row, "params"),
        products=_products(row, cluster.device),
        attention=_attention(row, stack),
        recompute=recompute,
        recomputed=_recomputed(row) if recompute == "fraction" else 1.0,
    )


def _refuse_what_cannot_be_predicted(row: Published) -> None:
    if row.facts.get("mlp", "").lower().startswith("moe") or row.numbers.get("ep", 1) > 1:
        raise _LackError("mixture of experts")
    if "inconsistent_batch" in row.missing:
        raise _LackError("inconsistent batch")
    if row.ran and row.seconds is None and row.memory is None:
        raise _LackError("no published time")


def _model(row: Published, tensor: int) -> ModelSpec:
    """Gated feed-forwards or shared keys make a llama, all else a gpt; a plain feed-forward is 4 · hidden if unsaid."""
    mlp: Mlp = _one_of(row, "mlp", get_args(Mlp))
    hidden, heads = _whole(row, "hidden"), _whole(row, "heads")
    key_value_heads = _optional(row, "kv_heads", heads)
    family: Family = "llama" if mlp == "swiglu" or key_value_heads < heads else "gpt"
    fields = complete({
        "family": family,
        "layers": _whole(row, "layers"),
        "hidden": hidden,
        "heads": heads,
        "key_value_heads": key_value_heads,
        "feed_forward": _optional(row, "ffn", 4 * hidden) if mlp == "gelu" else _whole(row, "ffn"),
        "vocabulary": _whole(row, "vocab"),
        "positions": _whole(row, "seq_len"),
        "tied": bool(_whole(row, "tied_embed")),
    })  # fmt: skip
    try:
        found = ModelSpec(**fields)
    except PlanError as error:
        raise _LackError(f"no such model: {error}") from None
    if heads % tensor:
        raise _LackError("tp does not divide heads")
    return found


def _device(row: Published) -> Device:
    """By its name, else by its name with its memory: `A100` with 80 in gpu_mem_gb is `A100-80GB`."""
    name = _text(row, "gpu")
    for each in (name, f"{name}-{row.numbers.get('gpu_mem_gb', 0):.0f}GB"):
        try:
            return device(each)
        except PlanError:
            continue
    raise _LackError(f"unknown gpu: {name}")


def _microbatches(row: Published) -> int:
    batch, each = _whole(row, "gbs"), _whole(row, "mbs") * _whole(row, "dp")
    count = max(1, round(batch / each))
    accumulated = row.whole("grad_accum") or count
    if abs(count * each - batch) > ROUNDING * batch or abs(accumulated * each - batch) > ROUNDING * batch:
        raise _LackError("inconsistent batch")
    return count


def _sequence(row: Published, context: int) -> int:
    length = _whole(row, "seq_len")
    if length % context:
        raise _LackError("cp does not divide seq_len")
    return length


def _zero_ranks(row: Published, copies: int) -> int:
    """Ranks that share a cut, 0 for all; groups of them make up all `copies`."""
    found = _optional(row, "zero_group", 0)
    if found and copies % found:
        raise _LackError("zero_group does not divide dp × cp")
    return found


def _products(row: Published, each: Device) -> Dtype:
    """The type of matrix products, for which the device has a rate; beside float8 ones all else is in bfloat16."""
    word = _one_of(row, "precision", tuple(_PRODUCTS))
    if not {_PRODUCTS[word], Dtype.BFLOAT16 if word == "fp8" else _PRODUCTS[word]} <= each.matmul.keys():
        raise _LackError(f"no rate of {each.name} for {word}")
    return _PRODUCTS[word]


def _schedule(row: Published, pipeline: int) -> tuple[str, int]:
    """The schedule and its chunks, of which there is one without a pipeline.

    1F1B over several chunks a rank is interleaved, whatever a row calls it (Narayanan et al. 2021, §2.2).
    """
    if pipeline == 1:
        return "1f1b", 1
    name = _one_of(row, "schedule", tuple(FAMILIES))
    chunks = _optional(row, "vpp", CHUNKS.get(name, 1))
    name = "interleaved" if name == "1f1b" and chunks > 1 else name
    if chunks != CHUNKS.get(name, chunks):
        raise _LackError(f"{name} with vpp {chunks}")
    return name, chunks


def _tier(row: Published, state: Literal["optimizer", "params"]) -> Tier:
    """Where a state lies: of `cpu` or `nvme` with the states in brackets, or without brackets all of ZeRO's stage."""
    said = row.facts.get("offload", "none").lower()
    match = re.fullmatch(r"(none|cpu|nvme|cpu/nvme)(?: \((\w+(?:\+\w+)*)\))?", said)
    if not match:
        raise _LackError(f"unknown offload: {said}")
    where, states = match[1], match[2].split("+") if match[2] else ["optimizer", "params"]
    if where == "none" or state not in states or (state == "params" and row.whole("zero_stage") != 3):
        return "device"
    return "host" if where == "cpu" else "disk"


def _attention(row: Published, stack: Stack) -> AttentionKernel:
    """The kernel; what a known framework takes is a fact about it, so a row need not say it."""
    if "attention" not in row.facts and "attention" not in row.missing and knows_framework(row):
        return stack.attention
    return _one_of(row, "attention", get_args(AttentionKernel))


def _recomputed(row: Published) -> float:
    """The share of layers from hardware over model FLOPs: a forward is a third of what a step computes."""
    if not row.numbers.get("mfu_pct") or "hfu_pct" not in row.numbers:
        raise _LackError("no share of recomputed layers (mfu_pct and hfu_pct)")
    return min(1.0, max(0.0, 3 * (row.numbers["hfu_pct"] / row.numbers["mfu_pct"] - 1)))


def _overlapping(stack: Stack, overlaps: frozenset[Overlap], why: str) -> Stack:
    reasons = {**stack.reasons, "overlaps": "; ".join(filter(None, (stack.reasons.get("overlaps"), why)))}
    return dataclasses.replace(stack, overlaps=overlaps, reasons=reasons)


def _text(row: Published, column: str) -> str:
    if column not in row.facts:
        raise _LackError(f"no {column}")
    return row.facts[column]


def _number(row: Published, column: str) -> float:
    if column not in row.numbers:
        raise _LackError(f"no {column}")
    return row.numbers[column]


def _whole(row: Published, column: str) -> int:
    return int(_number(row, column))


def _optional(row: Published, column: str, default: int) -> int:
    """A number that is `default` where it is not named; not so where the row itself says that it is missing."""
    return _whole(row, column) if column in row.numbers or column in row.missing else default


def _one_of(row: Published, column: str, known: tuple[Word, ...]) -> Word:
    text = _text(row, column)
    for each in known:
        if each == text.lower():
            return each
    raise _LackError(f"unknown {column}: {text}")
