"""Bytes that autograd saves for the backward pass, counted while asked: the measured activations."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Place = tuple[int, int]  # (stage, micro-batch)


class SavedBytes:
    """Counts saved tensors by (stage, micro-batch): each storage once, the parameters' left out.

    Off by default: the hooks cost time on every saved tensor.
    """

    def __init__(self) -> None:
        self.on = False
        self.peak = 0
        self._parameters: tuple[Tensor, ...] = ()
        self._held: dict[Place, int] = {}
        self._seen: dict[Place, set[int]] = {}

    def start(self, parameters: Iterator[Tensor]) -> None:
        """Count from now on; storages of `parameters` do not count."""
        self.on, self.peak = True, 0
        self._held, self._seen = {}, {}
        self._parameters = tuple(parameters)

    def stop(self) -> int:
        """Stop counting; the peak in bytes."""
        self.on = False
        return self.peak

    @contextmanager
    def counting(self, place: Place) -> Iterator[None]:
        """Count what is saved inside for `place`."""
        if not self.on:
            yield
            return
        # where they are now: some have memory only while they are used
        parameters = {each.untyped_storage().data_ptr() for each in self._parameters}
        seen = self._seen.setdefault(place, set())

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in parameters and storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                self._held[place] = self._held.get(place, 0) + storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
        self.peak = max(self.peak, sum(self._held.values()))

    def release(self, place: Place) -> None:
        """The backward of `place` is done."""
        self._held.pop(place, None)
        self._seen.pop(place, None)
