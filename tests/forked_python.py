"""The command of `children.executable`: has its server fork a Python with these arguments, and ends as that does.

    forked_python.py PYTHON ADDRESS [arguments of python]

It imports little: its start is what a process costs. It becomes a PYTHON if the server cannot fork one for the environment.
"""

import marshal
import os
import sys
from _signal import SIG_DFL, SIGKILL, signal
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket


def main(python: str, address: str, *arguments: str) -> None:
    """Send the request, and end with the status of the reply."""
    server = socket(AF_UNIX, SOCK_SEQPACKET)
    server.connect(address)
    request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg([request], [(SOL_SOCKET, SCM_RIGHTS, streams)])
    reply = server.recv(16)
    if not reply:
        os.execv(python, [python, *arguments])
    status = int(reply)
    if status >= 0:
        os._exit(status)
    if status != -SIGKILL:
        signal(-status, SIG_DFL)
    os.kill(os.getpid(), -status)


main(*sys.argv[1:])
