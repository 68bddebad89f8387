"""The engine's socket: nobody there, somebody who answers, who is silent, who answers nonsense."""

import contextlib
import json
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from headway.launch.doctor.looking.engine import look


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as path:  # pytest's own paths are too long for a socket
        yield Path(path)


@contextlib.contextmanager
def _listening(path, answers):
    """A socket whose n-th caller gets the n-th of `answers` as bytes; None: nothing at all, for as long as it waits."""
    held = []

    def serve(listener):
        for answer in answers:
            with contextlib.suppress(OSError):
                caller, _ = listener.accept()
                held.append(caller)
                if answer is not None:
                    caller.recv(65536)
                    caller.sendall(answer)
                    caller.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield {"DOCKER_HOST": f"unix://{path}"}
        thread.join(5)
    for each in held:
        each.close()


def _answer(document, status="200 OK"):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_an_engine_that_answers_says_its_version_and_runtimes(folder):
    answers = [_answer({"Version": "28.3.0"}), _answer({"Runtimes": {"runc": {}, "ascend": {}}})]
    with _listening(folder / "s", answers) as variables:
        found = look(variables)
    assert (found.there, found.version, found.runtimes, found.trouble) == (True, "28.3.0", ("ascend", "runc"), None)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (_answer({}, "500 Internal Server Error"), "it answers /version with status 500"),
        (_answer([1]), "it answers /version with status 200"),
        (_answer(b"<html>"), "Expecting value"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH-2.0"),
        (b"", "Remote end closed"),
    ],
)
def test_answers_that_are_none_are_said(folder, answer, trouble):
    with _listening(folder / "s", [answer]) as variables:
        found = look(variables)
    assert found.there
    assert trouble in found.trouble


def test_an_engine_that_is_silent_is_not_waited_for(folder):
    with _listening(folder / "s", [None]) as variables:
        assert look(variables, 0.2).trouble == "it did not answer within 200 ms"


def test_a_socket_that_nobody_listens_at_or_that_is_none_is_told(folder):
    assert not look({"DOCKER_HOST": f"unix://{folder}/missing"}).there
    (folder / "file").write_text("")
    assert look({"DOCKER_HOST": f"unix://{folder}/file"}).trouble == "that is no socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "dead"))
    assert look({"DOCKER_HOST": f"unix://{folder}/dead"}).trouble == "Connection refused"


def test_an_engine_elsewhere_is_not_asked():
    found = look({"DOCKER_HOST": "tcp://10.0.0.1:2376"})
    assert "was not asked" in found.trouble


@pytest.mark.docker
def test_a_real_engine_answers(docker_engine):
    found = look(docker_engine)
    assert found.trouble is None
    assert found.version[0].isdigit()
    assert "runc" in found.runtimes
