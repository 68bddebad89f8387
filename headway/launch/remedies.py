"""Remedies: what helps against what ssh, a host's shell or its Python says when a host does not start."""

from collections.abc import Mapping

NOT_THERE = 255  # ssh's own exit status; a command's own is passed on

_CONNECTION: Mapping[str, str] = {
    "ost key verification failed": "log in once by hand and accept the host's key, or put it into known_hosts",
    "ermission denied": "log in must work without a password: ssh-copy-id, or an agent with the key",
}
_START: Mapping[str, str] = {
    "No module named 'headway'": "give the --python of an environment with Headway that all hosts have",
    "No module named 'torch'": "give the --python of an environment with torch that all hosts have",
    "cd: ": "all hosts must share the work directory: give --workdir",
}
_NO_PROGRAM = (126, 127)  # a shell's and env's exit statuses


def remedy(status: int, said: str) -> str:
    """What helps, in brackets behind what is said; nothing if that is not known.

    >>> remedy(127, "sh: 1: exec: /opt/python9: not found")
    ' (give --python: a path that all hosts have)'
    """
    known = _CONNECTION if status == NOT_THERE else _START
    found = next((helps for words, helps in known.items() if words in said), None)
    if found is None and status in _NO_PROGRAM and "docker" not in said:
        found = "give --python: a path that all hosts have"
    return f" ({found})" if found else ""
