"""Functions of all kinds, good and bad, that tests ask advice about, and the interpreters for these tests."""

from headway.host.interpreters import discover, select
from headway.host.machine import this_machine

FOUND = discover()[0]
CORES = this_machine().cores

APP = """
import functools, json, os, random, re, signal, sys, threading, time, zlib
TEXT = "travellers left for platform nine " * 3000
DATA = TEXT.encode() * 4
TEXTS = [TEXT]
COUNT, SEEN = 0, []
examples = [(1000,), (2000,)]

def match(): return len(re.findall(r"(\\w)\\w*\\1", TEXT))
def pack(): return len(zlib.compress(DATA))
def count(size=20000):
    total = 0
    for number in range(size):
        total += number & 3
    return total
def both(): return match(), pack()
repeated = re.compile(r"(\\w)\\w*\\1").findall
repeated_here = functools.partial(repeated, TEXT)
def numbers(size=3000):
    for number in range(size):
        yield number
async def wait(seconds=0.002):
    import asyncio
    await asyncio.sleep(seconds)
    return seconds
lazy = lambda: iter_of(3)
def iter_of(size): return (number for number in range(size))
def keyed(*, size): return size
def changes():
    global COUNT
    COUNT += 1
    SEEN.append(COUNT)
    random.random()
    os.environ["HEADWAY_TEST"] = str(COUNT)
    with open("left.txt", "w") as file:
        file.write("x")
    return COUNT
def steady(): return random.Random(3).random()
def crashes(): os.kill(os.getpid(), signal.SIGSEGV)
def leaves(): sys.exit(3)
def leaves_at_once(): os._exit(7)
def raises(): raise ValueError("no platform")
def prints():
    print("x" * 100000)
    sys.stderr.write("y" * 1000)
    return 1
def starts():
    import subprocess
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
def hangs():
    while True: time.sleep(60)
def main_thread_only(): signal.signal(signal.SIGUSR1, signal.SIG_DFL)
def a_lock(): return threading.Lock()
def sorts(values=None): values.sort()
def forks():
    os.fork()
    return 1
def closes_all():
    os.closerange(3, 64)
def closes_all_and_stays():
    import signal
    os.closerange(3, 64)
    signal.pause()
def closes_stdout():
    sys.stdout.close()
    return 1
def nan(): return float("nan")
def sets_once():
    os.environ["HEADWAY_ONCE"] = "1"
def with_threads():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(count, [2000, 2000]))
def with_native_threads(size=20000):
    import ctypes
    libc, threads = ctypes.CDLL(None), [ctypes.c_ulong(), ctypes.c_ulong()]
    back = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: count(size) and None)
    for one in threads: libc.pthread_create(ctypes.byref(one), None, back, None)
    for one in threads: libc.pthread_join(one, None)
def wrapped(seconds=0.002):
    return wait(seconds)
closure = (lambda factor: lambda: factor)(3)
"""


def interpreter(name="3.13"):
    """Return the interpreter of this name."""
    return select(FOUND, [name])[0]


def made(folder, monkeypatch):
    """Write the functions into `folder` and make it the working directory."""
    (folder / "app.py").write_text(APP)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return folder
