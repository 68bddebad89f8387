"""Device nodes are counted by their numbers; what only looks like one is none."""

from headway.launch.device_nodes import numbered


def test_nodes_come_by_number_and_other_names_are_none(tmp_path):
    for name in ("davinci10", "davinci2", "davinci_manager", "davinci2x", "davinci"):
        (tmp_path / name).symlink_to("/dev/null")
    (tmp_path / "davinci3").write_text("a file")
    (tmp_path / "davinci4").symlink_to("nowhere")
    assert list(numbered(tmp_path / "davinci")) == [2, 10]


def test_a_host_without_such_a_directory_has_none(tmp_path):
    assert numbered(tmp_path / "dev" / "davinci") == {}
