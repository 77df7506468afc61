"""Attacks on the jail alone: Python code that runs without the gate, the facades and the guards.

An attack that succeeds sets `R` to REACHED and what it has read. The answer contains what it raises. The test replaces
the names in braces: {SERVER} and {ZYGOTE} are process ids, {FILE} is the path of the canary. The attacks are harmless
where the jail does not work: they only find out whether something is possible.
"""

REACHED = "REACHED"

_TRY = f"R = {REACHED!r}, "
_LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"


def _each(*statements: str) -> str:
    """Return code that runs each statement. A statement that does not fail has succeeded."""
    lines = ["import os, socket, signal, resource", "R = []"]
    for statement in statements:
        lines += ["try:", f"    {statement}", "except (OSError, ValueError) as e:", "    R.append(str(e))", "else:"]
        lines += [f"    R.append({REACHED!r} + {statement!r})"]
    return "\n".join(lines)


JAILED: dict[str, str] = {
    "74-environment": "import os\nR = dict(os.environ)",
    "75-environment-of-itself": _TRY + "open('/proc/self/environ').read()",
    "75-environment-of-the-server": _TRY + "open('/proc/{SERVER}/environ').read()",
    "75-environment-of-the-zygote": _TRY + "open('/proc/{ZYGOTE}/environ').read()",
    "76-memory-of-the-server": _TRY + "open('/proc/{SERVER}/maps').read() + open('/proc/{SERVER}/mem', 'rb').name",
    "76-memory-by-ptrace": _LIBC + "if libc.ptrace(0x4206, {SERVER}, 0, 0) == 0: R = 'REACHED'",
    "76-memory-by-process-vm": _LIBC + "if libc.syscall(310, {SERVER}, 0, 0, 0, 0, 0) == 0: R = 'REACHED'",
    "77-canary-file": _TRY + "open('{FILE}').read()",
    "77-canary-file-by-descriptor": _each("os.read(0, 1) and None or os.open('{FILE}', 0)"),
    "78-passwd": _TRY + "open('/etc/passwd').read()",
    "79-list-root": _TRY + "__import__('os').listdir('/')",
    "80-writes": _each(
        "open('{FILE}.written', 'w').close()",
        "os.open('{FILE}.written', os.O_CREAT | os.O_WRONLY)",
        "os.mkdir('{FILE}.directory')",
        "os.symlink('/', '{FILE}.link')",
        "os.link('{FILE}', '{FILE}.hard')",
        "os.rename('{FILE}', '{FILE}.renamed')",
        "os.chmod('{FILE}', 0o777)",
        "os.chown('{FILE}', 0, 0)",
        "os.truncate('{FILE}', 0)",
        "os.utime('{FILE}')",
        "os.unlink('{FILE}')",
        "os.rmdir(os.path.dirname('{FILE}'))",
        "os.mkfifo('{FILE}.fifo')",
        "os.setxattr('{FILE}', 'user.x', b'1')",
        "os.chdir('/tmp')",
        "os.chroot('/')",
    ),
    "80-writes-to-the-library": _TRY + "open(__import__('os').__file__, 'a')",
    "81-shell": "import os\nos.system('echo > {FILE}.shell')",
    "81-exec": _each("os.execv('/bin/sh', ['sh', '-c', 'echo > {FILE}.exec'])"),
    "82-subprocess": _TRY + "__import__('subprocess').run(['/bin/true'])",
    "82-spawn": _each("os.posix_spawn('/bin/true', ['true'], {})"),
    "83-fork": _each("os.fork()"),
    "83-fork-bomb": "import os\nfor _ in range(5):\n    try: os.fork(); R = 'REACHED'\n    except OSError: pass",
    "83-clone": _LIBC + "if libc.syscall(56, 17, 0, 0, 0, 0) >= 0: R = 'REACHED'",
    "84-threads": "from threading import Thread\nfrom time import sleep\n"
    "for _ in range(10000): Thread(target=sleep, args=(60,)).start()",
    "85-sockets": _each(
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
        "socket.socketpair()",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "socket.create_connection(('127.0.0.1', 1), 1)",
    ),
    "86-kill": _each(
        "os.kill({SERVER}, 0)",
        "os.kill({ZYGOTE}, 0)",
        "os.killpg(os.getpgid({SERVER}), 0)",
        "os.pidfd_open({SERVER})",
    ),
    "86-kill-by-tgkill": _LIBC + "if libc.syscall(234, {ZYGOTE}, {ZYGOTE}, 0) == 0: R = 'REACHED'",
    "86-signal-by-descriptor": "import fcntl\nR = 'REACHED', fcntl.fcntl(0, fcntl.F_SETOWN, {SERVER})",
    "87-ignored-signals": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
    "    except (OSError, ValueError): pass\nwhile True: pass",
    "88-limits": _each(
        "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
        "resource.prlimit({SERVER}, resource.RLIMIT_CORE, (0, 0))",
        "os.nice(-1)",
        "os.setpriority(os.PRIO_PROCESS, {SERVER}, os.getpriority(os.PRIO_PROCESS, {SERVER}))",
    ),
    "89-memory": "R = 'REACHED', len(bytearray(4 << 30))",
    "90-crash": "import ctypes\nctypes.string_at(0)",
    "90-abort": "import os\nos.abort()",
    "91-memfd": _each("os.memfd_create('x')", "os.pipe()", "os.eventfd(0)"),
    "91-executable-memory": _LIBC + "libc.mmap.restype = ctypes.c_void_p\n"
    "if libc.mmap(None, 4096, 7, 0x22, -1, 0) != ctypes.c_void_p(-1).value: R = 'REACHED'",
    "91-executable-later": _LIBC + "libc.mmap.restype = ctypes.c_void_p\npage = libc.mmap(None, 4096, 3, 0x22, -1, 0)\n"
    "if libc.mprotect(ctypes.c_void_p(page), 4096, 5) == 0: R = 'REACHED'",
    "91-namespaces": _LIBC + "if libc.unshare(0x10000000) == 0: R = 'REACHED'",
    "91-mount": _LIBC
    + "if libc.mount(b'x', b'{FILE}', b'tmpfs', 0, None) != -1 or ctypes.get_errno() != 1: R = 'REACHED'",
    "91-user": _each("os.setuid(0)", "os.setgid(0)", "os.setgroups([])"),
    "91-terminal": _LIBC + "if libc.ioctl(0, 0x5412, b'x') != -1 or ctypes.get_errno() != 1: R = 'REACHED'",
    "91-clone3": _LIBC + "if libc.syscall(435, b'\\0' * 64, 64) != -1: R = 'REACHED'",
    "92-many-threads": _LIBC + "stack = ctypes.create_string_buffer(1 << 16)\nflags = 0x3D0F00\n"
    "if libc.syscall(56, flags, ctypes.addressof(stack) + 65000, 0, 0, 0) != -1: R = 'REACHED'",
    "92-python-thread": "from threading import Thread\n"
    "try:\n    Thread(target=print).start()\n    R = 'REACHED'\nexcept RuntimeError: pass",
    "92-name-of-the-host": _each("os.uname()", "socket.gethostname()", "socket.gethostbyname('localhost')"),
    "92-paths": _each(
        "os.readlink('/proc/self/exe')",
        "os.readlink('/proc/self/cwd')",
        "os.getcwd()",
        "os.listdir(os.path.dirname(os.__file__))",
        "os.stat('/')",
        "os.lstat('/etc/passwd')",
        "os.stat('{FILE}')",
        "os.access('{FILE}', 0) or os.stat('{FILE}')",
        "os.statvfs('/')",
        "open(os.__file__)",
        "os.stat(os.__file__)",
    ),
    "92-size-by-statx": _LIBC
    + "if libc.syscall(332, -100, b'{FILE}', 0, 0xFFF, ctypes.create_string_buffer(256)) != -1: R = 'REACHED'",
    "92-import-from-file": "try:\n    import smtplib\n    R = 'REACHED'\nexcept ImportError: pass",
    "92-root": "import os\nif os.path.exists('/'): R = 'REACHED'",
    "92-sleep": "import time\ntime.sleep(60)",
    "96-heap": "import gc\nR = [o for o in gc.get_objects() if isinstance(o, str) and 'canary' in o]\n"
    "R += [str(list(o))[:500] for o in gc.get_objects() if isinstance(o, dict) and 'canary' in str(list(o)[:50])][:9]",
}
# 93 to 95, floods, garbage and forged answers, reach only their own caller: test_answers_of_children.py.
