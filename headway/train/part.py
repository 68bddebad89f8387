"""A part: a box of a tensor of the model or its optimizer, with the elements that a rank holds or wants of it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a whole tensor: its elements here, and where it begins in the tensor of that shape.

    `path`: the tensor's place in a nested state dict, as torch's own tools read it; joined by dots it is its key.
    """

    path: tuple[str, ...]
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    tensor: Tensor

    @property
    def key(self) -> str:
        """The name in the checkpoint."""
        return ".".join(self.path)
