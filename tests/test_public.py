"""The public names of the package: sorted, complete, and imported only when asked for."""

import subprocess
import sys

import pytest

import headway


def test_the_nouns_are_listed_in_order_and_each_is_there():
    assert list(headway.__all__) == sorted(headway.__all__) == sorted(headway._PLACES)
    for name in headway.__all__:
        assert getattr(headway, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = headway.Nonsense


def test_importing_the_package_imports_nothing_heavy():
    code = "import headway, sys; assert not {'numpy', 'pydantic', 'torch', 'yaml'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
