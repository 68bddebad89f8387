"""The container engine: whether anybody answers at its socket, asked over HTTP as Docker's clients do."""

import http.client
import json
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.launch.container.engine import DEFAULT
from headway.launch.doctor.machine import Engine
from headway.units import Bytes, Seconds, show_seconds

WITHIN = Seconds(4.0)
_MOST = Bytes(2**20)


def look(variables: Mapping[str, str], within: Seconds = WITHIN) -> Engine:
    """The engine at DOCKER_HOST of `variables`, or at Docker's usual socket."""
    address = variables.get("DOCKER_HOST") or DEFAULT
    scheme, _, rest = address.partition("://")
    if scheme != "unix":
        return Engine(address, there=True, trouble="it is not at a socket of this host, and was not asked")
    try:
        if not stat.S_ISSOCK(Path(rest).stat().st_mode):
            raise ValueError("that is no socket")
        version, info = (_get(rest, question, within) for question in ("/version", "/info"))
    except FileNotFoundError:
        return Engine(address, there=False)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Engine(address, there=True, trouble=_why(error, within))
    runtimes = info.get("Runtimes")
    return Engine(
        address,
        there=True,
        version=str(version.get("Version", "unknown"))[:40],
        runtimes=tuple(sorted(map(str, runtimes))) if isinstance(runtimes, dict) else (),
    )


def _why(error: Exception, within: Seconds) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {show_seconds(within)}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _get(path: str, question: str, within: Seconds) -> dict[str, Any]:
    """The JSON document that answers a question."""
    connection = http.client.HTTPConnection("localhost", timeout=within)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(within)
        connection.sock.connect(path)
        connection.request("GET", question)
        answer = connection.getresponse()
        document = json.loads(answer.read(_MOST))
    finally:
        connection.close()
    if answer.status != http.client.OK or not isinstance(document, dict):
        raise ValueError(f"it answers {question} with status {answer.status}")
    return document
