"""Does one thing: `behaviours_program.py CASE [ARGUMENT ...]`.

Runs on CPython 3.8 and later. Most cases need few modules, and import the others themselves: the program is started a
thousand times.
"""

import os
import sys
import time

MODULES = set(sys.modules)


def show():
    """Print the settings that environment variables change."""
    import locale
    import warnings

    here = os.path.dirname(os.path.abspath(__file__))
    print(
        sys.flags, sys.path, sys.executable, sys.prefix, __debug__, sys.argv, sys.dont_write_bytecode, __doc__ is None
    )
    print(sys.stdout.encoding, sys.stdout.errors, sys.getfilesystemencoding(), locale.setlocale(locale.LC_CTYPE, ""))
    print(
        sys.warnoptions,
        [str(one) for one in warnings.filters],
        getattr(sys, "pycache_prefix", None),
        here == sys.path[0],
    )
    print(
        "tracemalloc" in sys.modules and sys.modules["tracemalloc"].is_tracing(),
        "sitecustomize" in MODULES,
        "rich" in MODULES,
    )
    print(hash("a") if sys.flags.hash_randomization == 0 or "PYTHONHASHSEED" in os.environ else "random")
    own = [name for name in os.environ if name.startswith("HEADWAY_")] + ["PYTHONPATH", "_"]
    print(sorted((name, value) for name, value in os.environ.items() if name not in own))


def exits(code):
    """Exit with a code."""
    sys.exit(int(code))


def exit_text():
    """Exit with a text on stderr."""
    sys.exit("that was it")


def exit_none():
    """Exit without a code."""
    sys.exit()


def raises(name):
    """Exit with an exception."""
    raise {"ValueError": ValueError, "KeyboardInterrupt": KeyboardInterrupt, "MemoryError": MemoryError}[name](
        "on purpose"
    )


def os_exit(code):
    """Exit without the interpreter's end, which loses buffered output."""
    print("lost")
    os._exit(int(code))


def dies(name):
    """Die by a signal."""
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("dying", flush=True)
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(60)


def fatal():
    """Die in C."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def thread_raises():
    """Let a thread end with an exception, and go on."""
    import threading

    thread = threading.Thread(target=exits, args=("x",), name="one")
    thread.start()
    thread.join()
    print("on", flush=True)


def atexit_order():
    """Print the order of the functions that are called at the end."""
    import atexit
    import threading

    atexit.register(print, "first in, last out")
    atexit.register(print, "last in, first out")
    printed = threading.Event()
    threading.Thread(target=lambda: (printed.wait(), print("a thread ends before"))).start()
    print("the program's last line")
    printed.set()


def prints(count):
    """Print lines."""
    for i in range(int(count)):
        print("line", i)


def complains():
    """Print on stderr."""
    print("a word", file=sys.stderr)
    sys.stderr.flush()
    print("on")


def streams_there():
    """Tell, by the exit code, which standard streams exist."""
    os._exit(sum(1 << i for i, one in enumerate((sys.stdin, sys.stdout, sys.stderr)) if one is not None))


def counts(*names):
    """Count signals until stdin ends."""
    import json
    import signal

    found = dict.fromkeys(names, 0)
    by_number = {getattr(signal, name): name for name in names}

    def note(number, frame):
        found[by_number[number]] += 1

    for number in by_number:
        signal.signal(number, note)
    print("ready", flush=True)
    sys.stdin.read()
    print(json.dumps(found), flush=True)


def waits():
    """Wait for the end of stdin, and end by default by any signal."""
    print("ready", flush=True)
    sys.stdin.read()


def interrupted():
    """Catch a Ctrl-C, and say so."""
    try:
        waits()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def orphaned():
    """Wait until the parent is gone, as a Jupyter kernel does, and write a file."""
    parent = os.getppid()
    print(os.getpid(), flush=True)
    while os.getppid() == parent:
        time.sleep(0.005)
    with open("noticed.new", "w") as file:
        file.write("noticed")
    os.rename("noticed.new", "noticed")


def reads_terminal():
    """Read from the terminal, which stops the program if it is in the background."""
    print("ready", flush=True)
    os.read(os.open("/dev/tty", os.O_RDONLY), 1)


def fork():
    """Print the exit statuses of forked children."""
    found = []
    for code in (0, 3):
        child = os.fork()
        if child == 0:
            os._exit(code)
        found.append(os.waitpid(child, 0)[1])
    try:
        left = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        left = "none"
    print(found, left)


def child_of(*command):
    """Print a child's exit status and output."""
    import subprocess

    done = subprocess.run(command, capture_output=True, check=False)
    print(done.returncode, done.stdout.decode(), done.stderr.decode())


def python_child(*arguments):
    """Do the same with a child of this Python."""
    child_of(sys.executable, *arguments)


def clean_child():
    """Print the environment of a child that gets its own."""
    import re
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"],
        env={"A": "1"},
        stdout=subprocess.PIPE,
        check=False,
    )
    print(done.returncode, re.sub(r"'LC_CTYPE'(, )?", "", done.stdout.decode()))


def becomes(*command):
    """Become another program."""
    sys.stdout.flush()
    os.execvp(command[0], command)


def pool(method):
    """Use a pool of processes."""
    import multiprocessing

    with multiprocessing.get_context(method).Pool(2) as made_pool:
        print(made_pool.map(abs, [-1, -2, -3]))


def system():
    """Print the results of the shell's children."""
    print(os.system("exit 3"), os.popen("echo from a shell").read())


def reaps_all():
    """Wait for all children."""
    for _ in range(2):
        if os.fork() == 0:
            os._exit(0)
    found = 0
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
        found += 1
    print(found)


def child_signal():
    """Count the SIGCHLD of a child."""
    import signal

    seen = []
    signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(len(seen))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
