"""A port that is free, and whether somebody listens. Another test may be given the same port a moment later: so no
long work between asking for it and using it.

    port = free_port()
    program = subprocess.Popen(["program", str(port)])
    wait_until(lambda: is_listening(("127.0.0.1", port)), "program")
"""

import socket


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(address):
    """Whether somebody listens at (host, port), or at the path of a socket."""
    with socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX) as probe:
        return probe.connect_ex(address) == 0
