"""A worker process that needs nothing but the standard library: `python small_worker.py DIRECTORY DESCRIPTOR`.

To each connection it answers its process id. Files in the directory make it misbehave: `broken` and it does not start,
`slow` and its answer waits until that file is gone, `deaf` and it does not end on SIGTERM.
"""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

POLL = 0.01


def answer(listener: socket.socket, directory: Path) -> None:
    connection, _ = listener.accept()
    with connection:
        while (directory / "slow").exists():
            time.sleep(POLL)
        connection.sendall(f"{os.getpid()}\n".encode())


def watch_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main(directory: Path, descriptor: int) -> None:
    if (directory / "broken").exists():
        sys.exit(3)
    ended = threading.Event()
    if not (directory / "deaf").exists():
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=watch_parent, daemon=True).start()
    listener = socket.socket(fileno=descriptor)
    listener.settimeout(POLL)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not ended.is_set():
        try:
            answer(listener, directory)
        except TimeoutError:
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
