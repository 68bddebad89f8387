"""What an engine's own sentences become: what, and what helps."""

import pytest

from headway.errors import JobError, PlanError
from headway.launch.container.refusals import explain, no_answer
from headway.units import Seconds

AT = "unix:///run/docker.sock"


class _WrappedError(Exception):
    """Errors as `requests` and `docker` nest them: the system's own is an argument of an argument."""


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (FileNotFoundError(2, "No such file or directory"), f"no engine listens at {AT}: there is no such socket"),
        (ConnectionRefusedError(111, "Connection refused"), f"no engine listens at {AT}: connections are refused"),
        (PermissionError(13, "Permission denied"), f"this user may not talk to the engine at {AT}. Become a member"),
        (_WrappedError("Read timed out. (read timeout=10)"), f"the engine at {AT} did not answer within 10 s"),
        (_WrappedError("not a URL"), f"the engine at {AT} cannot be talked to: "),
    ],
)
def test_an_engine_that_does_not_answer_is_explained_by_the_systems_reason(cause, said):
    error = no_answer(AT, _WrappedError(_WrappedError("Connection aborted.", cause)), Seconds(10))
    assert isinstance(error, JobError)
    assert str(error).startswith(said)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "Install the NVIDIA Container Toolkit"),
        ('could not select device driver "cdi" with capabilities: []', "use --via gpus"),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9", "nvidia-ctk cdi generate"),
        (
            'error gathering device information while adding custom device "/dev/davinci7": no such file',
            "see its driver",
        ),
        ('exec: "python": executable file not found in $PATH: unknown', "Give a command that the image has"),
        ("something new", "Its log says more"),
    ],
)
def test_what_an_engine_refuses_is_told_in_its_words_with_what_helps(said, remedy):
    error = explain(_WrappedError(f"{said}\n"))
    assert isinstance(error, JobError)
    assert said in str(error)
    assert remedy in str(error)


def test_a_name_that_was_taken_in_between_is_the_users_to_change():
    said = (
        'Conflict. The container name "/job" is already in use by container "6c1f". You have to remove that container.'
    )
    error = explain(_WrappedError(said))
    assert isinstance(error, PlanError)
    assert str(error) == "a container called job exists already. Choose another --name."
