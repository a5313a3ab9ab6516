"""The program of `policy_soak.py`, run in the measured interpreter: it does many things for long and checks them.

The arguments are the seconds in all, and the seconds between two reports. A report is a line of JSON: the counts of
each load, the errors that it found, memory and threads.
"""

import asyncio
import bz2
import concurrent.futures.thread  # noqa: F401 - if a fork is under way at its import, it releases an unlocked lock
import gc
import hashlib
import itertools
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time

try:
    import _interpreters as interpreters  # 3.13 and later
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None

TEXT = "the quick brown fox jumps over the lazy dog " * 200
PATTERN = re.compile(r"(\w+) (\w+)o(\w)")
DIGEST = hashlib.sha256(TEXT.encode() * 8).hexdigest()
MOST_INTERPRETERS = 100  # CPython 3.13 keeps some 300 KiB of each interpreter that has ended
PATIENCE_S = 900  # more than the process may be stopped from outside
done, wrong = {}, []
stop = threading.Event()


def load(pause_s=0.0, threads=1):
    """Run a function in threads until the end; each call is counted, and each exception is an error."""

    def start(function):
        name = function.__name__

        def repeat(number):
            while not stop.is_set():
                try:
                    function()
                except Exception as error:  # noqa: BLE001 - each exception is a finding
                    wrong.append(f"{name}: {error!r}")
                done[name, number] = done.get((name, number), 0) + 1
                if pause_s:
                    stop.wait(pause_s)

        for number in range(threads):
            threading.Thread(target=repeat, args=(number,), name=name, daemon=True).start()
        return function

    return start


def expect(found, expected, what):
    """Raise ValueError if a result is not the expected one."""
    if found != expected:
        raise ValueError(f"{what} is {found!r}, expected {expected!r}")


def echo_server():
    """Return the port of a new echo server with a thread for each connection."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(50)

    def serve(connection):
        with connection:
            while True:
                data = connection.recv(4096)
                if not data:
                    return
                connection.sendall(data)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def start_loads():
    """Start all loads."""
    port = echo_server()
    numbers, items, condition, tally = itertools.count(), queue.Queue(50), threading.Condition(), [0, 0]
    lock = threading.Lock()
    alone = threading.Lock()  # CPython 3.13 kills a child that is forked while there is a sub-interpreter
    big = [{"number": i, "list": [i]} for i in range(100000)]

    @load(threads=2)
    def computes():
        expect(sum(range(20000)), 199990000, "a sum")

    @load()
    def matches():
        expect(len(PATTERN.findall(TEXT)), 600, "matches")

    @load()
    def packs():
        expect(bz2.decompress(bz2.compress(TEXT.encode())), TEXT.encode(), "bz2's text")

    @load(threads=2)
    def digests():
        expect(hashlib.sha256(TEXT.encode() * 8).hexdigest(), DIGEST, "a digest")

    @load(threads=2)
    def connects():
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            for number in range(100):
                message = b"%09d" % number
                client.sendall(message)
                got = b""
                while len(got) < 9:
                    part = client.recv(9 - len(got))
                    if not part:
                        raise ValueError("the connection ended")
                    got += part
                expect(got, message, "an echo")

    @load(pause_s=0.001)
    def produces():
        for _ in range(20):
            items.put(next(numbers))

    seen = itertools.count()

    @load()
    def consumes():
        expect(items.get(timeout=PATIENCE_S), next(seen), "an item")

    @load(threads=2)
    def adds_up():
        with lock:
            before = tally[0]
            sum(range(20))
            tally[0] = before + 1
            tally[1] += 1
            expect(tally[0], tally[1], "what the lock guards")

    turn = [0]

    def take_turns(mine):
        with condition:
            if not condition.wait_for(lambda: turn[0] % 2 == mine or stop.is_set(), timeout=PATIENCE_S):
                raise ValueError("a notify was lost")
            turn[0] += 1
            condition.notify_all()

    @load(pause_s=0.0005)
    def pings():
        take_turns(0)

    @load(pause_s=0.0005)
    def pongs():
        take_turns(1)

    @load(pause_s=0.05)
    def begins_threads():
        ran = []
        short = [threading.Thread(target=ran.append, args=(i,)) for i in range(20)]
        for one in short:
            one.start()
        for one in short:
            one.join(PATIENCE_S)
        expect(sorted(ran), list(range(20)), "what threads did")

    @load(pause_s=0.05)
    def loops():
        async def main():
            found = await asyncio.gather(
                *(asyncio.get_running_loop().run_in_executor(None, sum, range(i)) for i in range(50)),
                asyncio.sleep(0.01, 0),
            )
            expect(found[:-1], [i * (i - 1) // 2 for i in range(50)], "what a loop gathered")

        asyncio.run(main())

    @load(pause_s=0.5)
    def forks():
        with alone:
            child = os.fork()
        if child == 0:
            other = threading.Thread(target=sum, args=(range(1000),))
            other.start()
            other.join()
            os._exit(7)
        expect(os.waitpid(child, 0)[1] >> 8, 7, "a child's exit code")

    @load(pause_s=3)
    def spawns():
        found = subprocess.run(
            [sys.executable, "-c", "print(6 * 7)"], capture_output=True, timeout=PATIENCE_S, check=True
        )
        expect(found.stdout, b"42\n", "a child's words")

    @load(pause_s=2)
    def collects():
        big.append({"self": big[-1]})
        gc.collect()

    if interpreters is not None:
        left = list(range(MOST_INTERPRETERS))

        @load(pause_s=1)
        def interprets():
            if left:
                left.pop()
                with alone:
                    one = interpreters.create()
                    try:
                        interpreters.run_string(one, "assert sum(range(100000)) == 4999950000")
                    finally:
                        interpreters.destroy(one)


def status():
    """Return fields of /proc/self/status, in its units."""
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon", "Threads")}


def report(begun, more=None):
    """Print a report, with the additional figures of the caller."""
    counted = {}
    for (name, _), times in list(done.items()):
        counted[name] = counted.get(name, 0) + times
    now = status()
    line = {"s": round(time.monotonic() - begun), "rss_kib": now["VmRSS"], "threads": now["Threads"]}
    line["anon_kib"] = now["RssAnon"]
    line["descriptors"] = len(os.listdir("/proc/self/fd"))
    line.update(more or {})
    print(json.dumps({**line, "done": counted, "wrong": wrong[:5], "wrongs": len(wrong)}), flush=True)


def main():
    """Run for as long as the arguments say."""
    seconds, every = float(sys.argv[1]), float(sys.argv[2])
    begun = time.monotonic()
    start_loads()
    while time.monotonic() - begun < seconds:
        time.sleep(min(every, max(0.0, begun + seconds - time.monotonic())))
        report(begun)
    stop.set()
    os._exit(len(wrong) > 0)


if __name__ == "__main__":
    main()
