"""Begins and ends in one of the ways that programs do: `lifecycle_program.py CASE`. Runs on CPython 3.8 and later."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time


def work():
    """Release the GIL a few times."""
    for _ in range(5):
        time.sleep(0.001)


def threads(count):
    """Run threads to their end."""
    started = [threading.Thread(target=work, name=f"worker {i}") for i in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def spin_until(stop):
    """Compute until `stop` is true."""
    while not stop:
        sum(range(100))


def plain():
    """End by returning."""
    threads(3)


def exit_code():
    """End with an exit code."""
    threads(1)
    sys.exit(5)


def error():
    """End with an exception."""
    threads(1)
    raise RuntimeError("on purpose")


def os_exit():
    """Exit without the interpreter's end."""
    threads(1)
    os._exit(7)


def killed():
    """End by SIGKILL."""
    threads(1)
    os.kill(os.getpid(), signal.SIGKILL)


def terminated():
    """End by SIGTERM, which nothing handles."""
    threads(1)
    os.kill(os.getpid(), signal.SIGTERM)


def daemons():
    """End while daemon threads compute and wait for the GIL."""
    stop = []
    for _ in range(4):
        threading.Thread(target=spin_until, args=(stop,), daemon=True).start()
    work()


def fork():
    """Fork, with and without other threads at work, and let the children work too."""
    stop = []
    for others in (0, 2):
        spinning = [threading.Thread(target=spin_until, args=(stop,)) for _ in range(others)]
        for thread in spinning:
            thread.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                threads(1)
                os._exit(3)
            assert os.waitpid(child, 0)[1] == 3 << 8
        stop.append(True)
        for thread in spinning:
            thread.join()
        stop.clear()


def fork_of_a_fork():
    """Fork a child that forks a child."""
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            threads(1)
            os._exit(0)
        os._exit(os.waitpid(grandchild, 0)[1])
    assert os.waitpid(child, 0)[1] == 0


def fork_storm():
    """Fork from several threads at a time, beside others that compute."""
    stop, failed = [], []

    def forks():
        for _ in range(10):
            child = os.fork()
            if child == 0:
                threads(1)
                os._exit(3)
            if os.waitpid(child, 0)[1] != 3 << 8:
                failed.append(child)

    spinning = [threading.Thread(target=spin_until, args=(stop,)) for _ in range(2)]
    forking = [threading.Thread(target=forks) for _ in range(4)]
    for thread in spinning + forking:
        thread.start()
    for thread in forking:
        thread.join()
    stop.append(True)
    assert not failed


def execute():
    """Become another program."""
    threads(1)
    os.execv(sys.executable, [sys.executable, __file__, "plain"])


def subprocesses():
    """Start Python programs, and another program."""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", "print(1)"], check=True)
    subprocess.run(["true"], check=True)


def pool_by(method):
    """Use a pool of processes."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(pool.map(abs, [-1, -2, -3]))


def pool_spawn():
    """Use children that are spawned."""
    pool_by("spawn")


def pool_fork():
    """Use children that are forked."""
    pool_by("fork")


def pool_forkserver():
    """Use children that a server forks."""
    pool_by("forkserver")


def surroundings():
    """Print the surroundings: open files, signal handlers, threads, large modules, and the search path."""
    print(sorted(os.listdir("/proc/self/fd"), key=int), os.open(os.devnull, os.O_RDONLY))
    print([signal.getsignal(number) for number in range(1, 32)], threading.active_count())
    print("ctypes" in sys.modules, "_ctypes" in sys.modules, sys.path)


def many_threads():
    """Run more threads, one after the other, than the recorder has slots for at a time."""
    for _ in range(60):
        threads(20)


def crowd():
    """Run a thousand threads at a time that all want the GIL."""
    gate = threading.Event()
    arrived = []

    def one():
        gate.wait()
        sum(range(100))
        arrived.append(1)

    crowd = [threading.Thread(target=one) for _ in range(1000)]
    for thread in crowd:
        thread.start()
    gate.set()
    for thread in crowd:
        thread.join()
    assert len(arrived) == 1000


def never_returns():
    """End while a thread is in a C call, without the GIL, that never returns."""
    begun = threading.Event()
    hanging = os.pipe()

    def hang():
        begun.set()
        os.read(hanging[0], 1)

    threading.Thread(target=hang, daemon=True).start()
    begun.wait()
    threads(3)


def signals():
    """Let signals interrupt threads anywhere."""
    caught = []
    stop = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    spinning = [threading.Thread(target=spin_until, args=(stop,)) for _ in range(2)]
    for thread in spinning:
        thread.start()
    while len(caught) < 20:
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    stop.append(True)
    for thread in spinning:
        thread.join()
    print("caught")


def interpreters():
    """Run sub-interpreters one after the other and at a time; from 3.12 on, each has its own GIL."""
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module

    def one():
        interpreter = module.create()
        module.run_string(interpreter, "sum(range(100000))")
        module.destroy(interpreter)

    together = [threading.Thread(target=one) for _ in range(3)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    for _ in range(10):
        one()


def shared_interpreters():
    """Run sub-interpreters that share the main GIL in threads, beside a thread that computes now and then."""
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    if sys.version_info >= (3, 13):
        made = [module.create("legacy") for _ in range(2)]
    elif sys.version_info >= (3, 12):
        made = [module.create(isolated=False) for _ in range(2)]
    else:
        made = [module.create() for _ in range(2)]
    code = "import time\nfor _ in range(5):\n  sum(range(10000))\n  time.sleep(0.001)"
    running = [threading.Thread(target=module.run_string, args=(one, code)) for one in made]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        sum(range(20000))
        time.sleep(0.0005)
    for one in made:
        module.destroy(one)


CASES = {
    one.__name__: one
    for one in (
        plain,
        exit_code,
        error,
        os_exit,
        killed,
        terminated,
        daemons,
        fork,
        fork_of_a_fork,
        fork_storm,
        execute,
        subprocesses,
        pool_spawn,
        pool_fork,
        pool_forkserver,
        surroundings,
        many_threads,
        crowd,
        never_returns,
        signals,
        interpreters,
        shared_interpreters,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    print("end of", sys.argv[1], flush=True)
