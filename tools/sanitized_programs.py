"""Programs whose libraries switch stacks, run event loops in C or threads of C: `sanitized_programs.py NAME`.

sanitized_cpython.py starts them, with the library on the path. They run on CPython 3.11 and later.
"""

import asyncio
import sys
import threading
import time

ROUNDS = 200


def _threads(function, count=4):
    started = [threading.Thread(target=function) for _ in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def use_greenlet():
    """Switch between greenlets in several threads, and release the GIL in each greenlet."""
    import greenlet

    def work():
        parent = greenlet.getcurrent()

        def inner(depth):
            if depth > 0:
                greenlet.greenlet(inner, parent=greenlet.getcurrent()).switch(depth - 1)
            time.sleep(0)
            parent.switch()

        for _ in range(ROUNDS):
            greenlet.greenlet(inner).switch(5)

    _threads(work)


def use_gevent():
    """Run greenlets, a thread pool and sockets under gevent's loop."""
    import gevent
    import gevent.server
    import gevent.socket

    def echo(connection, _address):
        while data := connection.recv(100):
            connection.sendall(data)

    server = gevent.server.StreamServer(("127.0.0.1", 0), echo)
    server.start()

    def ask():
        with gevent.socket.create_connection(("127.0.0.1", server.server_port)) as client:
            for _ in range(ROUNDS):
                client.sendall(b"x")
                assert client.recv(100) == b"x"

    gevent.joinall([gevent.spawn(ask) for _ in range(4)], raise_error=True)
    pool = gevent.get_hub().threadpool
    assert sum(pool.map(lambda i: sum(range(i)), range(ROUNDS))) > 0
    server.stop()


def use_uvloop():
    """Serve connections in uvloop beside CPU-bound threads."""
    import uvloop

    async def handle(reader, writer):
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(ROUNDS):
            writer.write(b"x")
            assert await reader.read(100) == b"x"
        writer.close()

    async def main():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(ask(port) for _ in range(4)), *(asyncio.to_thread(sum, range(10**6)) for _ in range(4)))
        server.close()

    uvloop.run(main())


def use_numpy():
    """Compute in threads that release the GIL, and in the library's own threads."""
    import numpy as np

    def work():
        a = np.arange(90_000, dtype=float).reshape(300, 300)
        for _ in range(10):
            np.sort((a @ a).ravel())

    _threads(work)


PROGRAMS = {"greenlet": use_greenlet, "gevent": use_gevent, "uvloop": use_uvloop, "numpy": use_numpy}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    print("end of", sys.argv[1], flush=True)
