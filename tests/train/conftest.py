"""One thread for the tests that compute in this process, as each rank has; ranks share the cores."""

import pytest


@pytest.fixture(scope="session")
def one_thread():
    import torch

    torch.set_num_threads(1)
