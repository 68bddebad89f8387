"""Outline: what a prediction needs to know of a job: its sizes and what ran it, without rows or units."""

from dataclasses import dataclass, replace
from typing import Literal

from headway.cluster.spec import Cluster, Ring, spread
from headway.model.exchange import Call
from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.placement import State, Tier, zero
from headway.sim.cost import collectives
from headway.sim.exchanges import Exchange
from headway.sim.network import FREE, Network
from headway.stack.spec import AttentionKernel, Stack
from headway.units import Bytes, BytesPerSecond, Dtype, Seconds

Recompute = Literal["none", "selective", "full", "op-level", "fraction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A job as far as its prediction asks.

    `microbatch` in sequences, `microbatches` of a step on each data rank, `sequence` in tokens. `context`: ranks that
    cut each sequence, attention included. `products`: the type of matrix products (float8 with everything else in
    bfloat16). `attention`: the kernel. `zero`: stage of ZeRO over `zero_ranks` of the data × context ranks (0: all of
    them); `optimizer_on` and `params_on`: the tier of optimizer states (and the gradients that they take) and of
    parameters. `recompute`: what the backward computes again; of a "fraction" the share `recomputed` of the layers.
    `layers` of each stage, where they are known (none: as the stack splits). `smoothed`: labels of the loss. `network`:
    what each exchange gets of the network cards.
    """

    model: ModelSpec
    cluster: Cluster
    stack: Stack
    microbatch: int
    microbatches: int
    sequence: int
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    data: int = 1
    chunks: int = 1
    schedule: str = "1f1b"
    sequence_parallel: bool = False
    zero: int = 0
    zero_ranks: int = 0
    optimizer_on: Tier = "device"
    params_on: Tier = "device"
    products: Dtype = Dtype.BFLOAT16
    attention: AttentionKernel = "flash"
    recompute: Recompute = "none"
    recomputed: float = 1.0
    layers: tuple[int, ...] = ()
    smoothed: bool = False
    network: Network = FREE

    @property
    def world(self) -> int:
        """Ranks of the job."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.microbatch * self.microbatches * self.data * self.sequence

    @property
    def dtype(self) -> Dtype:
        """The type of activations, and of products that are not narrower."""
        return Dtype.BFLOAT16 if self.products is Dtype.FLOAT8 else self.products

    @property
    def sizes(self) -> Sizes:
        """One micro-batch on one rank."""
        return Sizes(
            self.microbatch,
            self.sequence,
            self.dtype,
            self.tensor,
            self.sequence_parallel and self.tensor > 1,
            self.smoothed,
            context=self.context,
            narrow=self.products is Dtype.FLOAT8,
            attention=self.attention,
        )

    @property
    def pipeline_crosses_nodes(self) -> bool:
        """Whether any two neighbours of a pipeline are on different nodes."""
        return self.pipeline > 1 and self.world > self.cluster.devices_per_node

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Stages of a pipeline rank, as families.build places them."""
        if self.schedule == "zb-v":
            return rank, 2 * self.pipeline - 1 - rank
        return tuple(range(rank, self.pipeline * self.chunks, self.pipeline))

    def rank_of(self, stage: int) -> int:
        """The pipeline rank of a stage."""
        return min(stage, 2 * self.pipeline - 1 - stage) if self.schedule == "zb-v" else stage % self.pipeline

    @property
    def head_rank(self) -> int:
        """The pipeline rank of the last stage."""
        return self.rank_of(self.pipeline * self.chunks - 1)

    @property
    def ties_ranks(self) -> bool:
        """Whether a tied embedding is on two pipeline ranks; a V has both its ends on one."""
        return self.model.tied and self.head_rank > 0

    def cuts(self, state: Literal["params", "grads", "optimizer"]) -> int:
        """Over how many ranks a kind of state is cut."""
        placed: State = getattr(zero(self.zero), state)
        return self.sharers if placed.cut else 1

    @property
    def sharers(self) -> int:
        """Ranks that sum gradients at once: those that ZeRO cuts over, or all data × context ranks."""
        return (self.zero_ranks if self.zero else 0) or self.data * self.context

    @property
    def copied(self) -> int:
        """How many ranks hold the same part, where ZeRO cuts over some of the data × context ranks only."""
        return self.data * self.context // self.sharers

    def inside(self, ranks: int, exchange: Exchange = "tensor", *, stride: int) -> Ring:
        """The ring of so many ranks, `stride` apart: axes from the fastest are tensor, context, data, pipeline."""
        per_node = self.cluster.devices_per_node
        return spread(self.network.cluster(self.cluster, exchange), ranks, max(1, per_node // stride))

    def sharing(self) -> Ring:
        """The ranks that sum gradients, or that share what ZeRO-3 cuts."""
        over = self.inside(self.sharers, "data", stride=self.tensor)
        if not self.stack.gathers_alone or self.zero < 3:
            return over
        card = self.network.cluster(self.cluster, "data").between
        return replace(over, bandwidth=BytesPerSecond(min(over.bandwidth, card.bandwidth)))

    def copies(self) -> Ring:
        """The ranks that hold the same part where ZeRO cuts over some only."""
        return self.inside(self.copied, "data", stride=self.tensor * self.sharers)

    def ends(self) -> Ring:
        """The first and the last pipeline rank."""
        slowed = self.network.cluster(self.cluster, "shared")
        return spread(slowed, 2, 2 if self.share_a_node(0, self.head_rank) else 1)

    def both_ends(self) -> Ring:
        """The ranks that hold a tied embedding: those of the first and of the last pipeline rank."""
        copies, per_node = self.data * self.context, self.cluster.devices_per_node
        near = copies if self.world > per_node else 2 * copies
        slowed = self.network.cluster(self.cluster, "shared")
        return spread(slowed, 2 * copies, max(1, min(per_node // self.tensor, near)))

    def share_a_node(self, *pipeline_ranks: int) -> bool:
        """Whether all ranks of these pipeline ranks, and all between them, are on one node."""
        block = self.world // self.pipeline
        first, last = min(pipeline_ranks) * block, (max(pipeline_ranks) + 1) * block - 1
        return self.cluster.node(first) == self.cluster.node(last)

    def message_seconds(self, exchange: Exchange = "forward", *, inside: bool) -> Seconds:
        """How long activations take from one pipeline rank to another, inside a node or between two; or gradients back.

        Tensor ranks send a part each, and gather it where they hold whole ones (Narayanan et al. 2021, §4.1).
        """
        size = self.sizes.tokens * self.model.hidden * self.dtype.bytes
        over = spread(self.network.cluster(self.cluster, exchange), 2, 2 if inside else 1)
        part = size // (self.tensor if self.stack.scatters_messages or self.sizes.sequence_parallel else 1)
        taken = over.call + over.around + part / over.bandwidth
        if part < size and not self.sizes.sequence_parallel:
            taken += collectives([Call("all_gather", Bytes(size))], self.inside(self.tensor, stride=1))
        return Seconds(taken)
