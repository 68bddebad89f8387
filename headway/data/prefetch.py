"""Reading ahead: the batches of the next steps, made by threads while this step computes, in the order of the steps."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def ahead(read: Callable[[int], T], *, first: int, end: int, workers: int) -> Iterator[Iterator[T]]:
    """`read(first)`, `read(first + 1)` … `read(end - 1)`, `workers` of them read ahead by as many threads.

    The order is that of the numbers, whoever is ready first; with 0 workers each is read when it is asked for. An error
    of `read` is raised where its value would have come. On leaving, what has not begun is dropped.

    >>> with ahead(lambda step: step * step, first=2, end=6, workers=3) as squares:
    ...     list(squares)
    [4, 9, 16, 25]
    """
    if not workers:
        yield map(read, range(first, end))
        return
    threads, numbers = ThreadPoolExecutor(workers, thread_name_prefix="read ahead"), iter(range(first, end))
    try:
        begun = deque(threads.submit(read, number) for number in islice(numbers, workers))
        yield _in_order(threads, read, numbers, begun)
    finally:
        threads.shutdown(cancel_futures=True)


def _in_order(
    threads: ThreadPoolExecutor, read: Callable[[int], T], numbers: Iterator[int], begun: deque[Future[T]]
) -> Iterator[T]:
    while begun:
        oldest = begun.popleft()
        begun.extend(threads.submit(read, number) for number in islice(numbers, 1))
        yield oldest.result()
