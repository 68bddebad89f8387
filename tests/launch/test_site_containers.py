"""Golden lines for the containers of Slurm sites, and paths that their lists cannot hold."""

import shlex

import pytest

from headway.errors import PlanError
from headway.launch.launch_plan import Bind, HostLaunch
from headway.launch.site_containers import apptainer, parse_container, pyxis

HOST = HostLaunch(
    "node1",
    0,
    (0, 8),
    ("python", "-m", "headway.train.agent", "/work/run", "8", "0", "parent"),
    (("NCCL_SOCKET_IFNAME", "=eth0"), ("OMP_NUM_THREADS", "1")),
    "/work",
    (Bind("/lustre/me", "/work"), Bind("/lustre/corpora", "/data", read_only=True)),
)


def test_the_golden_options_of_pyxis():
    assert shlex.join(["srun", *pyxis("nvcr.io#nvidia/pytorch:26.08-py3", HOST), *HOST.arguments]) == (
        "srun '--container-image=nvcr.io#nvidia/pytorch:26.08-py3' "
        "--container-mounts=/lustre/me:/work,/lustre/corpora:/data:ro --container-workdir=/work "
        "--container-env=NCCL_SOCKET_IFNAME,OMP_NUM_THREADS --no-container-mount-home "
        "python -m headway.train.agent /work/run 8 0 parent"
    )


@pytest.mark.parametrize(("kind", "gpus"), [("cuda", "--nv "), ("cpu", ""), ("npu", "")])
def test_the_golden_line_of_apptainer(kind, gpus):
    assert shlex.join(apptainer("/images/headway.sif", HOST, kind)) == (
        f"apptainer exec {gpus}--no-home --bind /lustre/me:/work --bind /lustre/corpora:/data:ro --pwd /work "
        "/images/headway.sif python -m headway.train.agent /work/run 8 0 parent"
    )


@pytest.mark.parametrize("path", ["/a:b", "/a,b", "/a+b"])
def test_paths_that_a_list_of_mounts_cannot_hold_are_refused(path):
    host = HostLaunch("a", 0, (0, 1), ("x",), (), "/work", (Bind(path, "/work"),))
    for make in (lambda: pyxis("image", host), lambda: apptainer("image", host, "cpu")):
        with pytest.raises(PlanError, match="has a colon, comma or plus"):
            make()


@pytest.mark.parametrize("image", ["-x", "", "a b", "a\nb", "$(a)"])
def test_what_is_no_image_is_refused(image):
    for make in (lambda: pyxis(image, HOST), lambda: apptainer(image, HOST, "cpu")):
        with pytest.raises(PlanError, match="is no image"):
            make()
    with pytest.raises(PlanError, match="is no image"):
        parse_container(f"pyxis:{image}")


@pytest.mark.parametrize("text", ["image", "docker:image", ":image", "--x"])
def test_a_tool_that_is_not_known_is_refused(text):
    with pytest.raises(PlanError, match="write pyxis:IMAGE or apptainer:IMAGE"):
        parse_container(text)
