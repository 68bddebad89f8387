"""Stand-ins for hosts: an ssh that runs its line here, or fails as networks do, and agents that need no torch."""

import os
import stat
import sys
from pathlib import Path

# answers, then obeys as headway.train.agent does: `stop` ends it well, the end of stdin or `kill` as a signal would
AGENT = """
import os, sys, time
print("headway: agent", os.getpid(), "on", "here", flush=True)
status, seconds = int(sys.argv[1]), float(sys.argv[2])
if status >= 0:
    time.sleep(seconds)
    print("the last words", flush=True)
    sys.exit(status)
for line in sys.stdin:
    if line.strip() == "stop":
        sys.exit(0)
    if line.strip() == "kill":
        break
sys.exit(143)
"""
# deaf to all but SIGKILL
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("headway: agent", os.getpid(), "on", "here", flush=True)
time.sleep(300)
"""
SSH = """#!/bin/sh
# ssh's options and host, then the line; what a host does is in $FAKE_SSH/HOST
while [ "$1" != "--" ]; do shift; done
host=$2 line=$3
echo "$host: $line" >> "$FAKE_SSH/lines"
[ -e "$FAKE_SSH/$host" ] || exec sh -c "$line"
case $(cat "$FAKE_SSH/$host") in
    refused) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
    unknown) echo "Host key verification failed." >&2; exit 255 ;;
    silent) exec sleep 300 ;;
    lost)
        exec 3<&0
        sh -c "$line" <&3 &
        sleep 2
        kill -9 $!
        echo "Timeout, server $host not responding." >&2
        exit 255
        ;;
esac
"""


def answers(status=-1, seconds=0.0):
    """The words of an agent: it ends with `status` after `seconds`, or stays until it is told to end."""
    return (sys.executable, "-c", AGENT, str(status), str(seconds))


def deaf():
    return (sys.executable, "-c", DEAF)


def fake_ssh(folder: Path, **hosts: str) -> dict[str, str]:
    """Variables under which `ssh` is the stand-in; `hosts` do what their word says, all others run their line."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "ssh"
    program.write_text(SSH)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for host, word in hosts.items():
        (folder / host).write_text(word)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "FAKE_SSH": str(folder)}


def processes(word: str) -> list[str]:
    """Command lines that hold a word, this process's own left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text().replace("\0", " ")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found
