"""Packages and what Headway asks for; torch with and without a plug-in that breaks, hangs or talks."""

import os

import pytest

from headway.launch.doctor.looking import software


def test_this_pythons_packages_are_found_with_the_least_versions_that_headway_asks_for():
    found = software.look()
    assert found.packages["numpy"]
    if found.wanted:  # Headway is installed, not only in the path
        assert found.wanted["torch"] == ("2.11", "train")
        assert found.wanted["numpy"] == ("1.26", "")
        assert "mypy" not in found.wanted


def test_what_ascends_installers_left_is_read(tmp_path):
    driver = tmp_path / "usr/local/Ascend/driver"
    cann = tmp_path / "usr/local/Ascend/ascend-toolkit/latest/aarch64-linux"
    driver.mkdir(parents=True)
    cann.mkdir(parents=True)
    (driver / "version.info").write_text("Version=24.1.rc2\nascendhal_version=7.35.19\n")
    (cann / "ascend_toolkit_install.info").write_text("package_name=Ascend-cann-toolkit\nversion=8.0.0\n")
    assert software.look(tmp_path).files == {"Ascend driver": "24.1.rc2", "CANN": "8.0.0"}
    (driver / "version.info").write_text("odd")
    assert software.look(tmp_path).files == {"CANN": "8.0.0"}


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Makes a package with an entry point that torch loads by itself."""

    def make(code):
        (tmp_path / "an_odd_plugin.py").write_text(code)
        about = tmp_path / "an_odd_plugin-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: an-odd-plugin\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[torch.backends]\nodd = an_odd_plugin:load\n")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    return make


@pytest.mark.dist
def test_torch_says_what_it_is():
    found = software.torch(autoload=True)
    assert found.trouble is None
    assert "gloo" in found.backends
    assert found.gloo is None
    assert found.version[0].isdigit()


@pytest.mark.dist
def test_a_plugin_that_breaks_the_import_is_told_from_torch_itself(plugin):
    plugin("def load():\n    raise OSError('libhccl.so: cannot open shared object file')\n")
    broken = software.torch(autoload=True)
    assert broken.trouble.endswith("from OSError: libhccl.so: cannot open shared object file")
    assert software.torch(autoload=False).trouble is None


@pytest.mark.full
@pytest.mark.dist
def test_a_user_who_has_switched_plugins_off_has_none_to_break_the_import(plugin, monkeypatch):
    plugin("def load():\n    raise OSError('gone')\n")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    assert software.torch(autoload=True).trouble is None


@pytest.mark.dist
def test_a_plugin_that_hangs_is_ended(plugin, monkeypatch):
    plugin("import time\ndef load():\n    time.sleep(600)\n")
    monkeypatch.setattr(software, "IMPORT_WITHIN", 4.0)
    assert software.torch(autoload=True).trouble == "it did not end within 4.00 s"


@pytest.mark.full
@pytest.mark.dist
def test_a_plugin_that_talks_is_ignored(plugin):
    plugin("def load():\n    print('[1, 2]')\n    print('{\"version\": 1}')\n    print('loaded')\n")
    assert software.torch(autoload=True).trouble is None


@pytest.mark.dist
@pytest.mark.full
def test_an_interface_that_is_not_there_breaks_gloo(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nope")
    assert "nope" in software.torch(autoload=True).gloo
