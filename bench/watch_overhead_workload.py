"""The services of bench/watch_overhead.py, in which watching is switched on and off.

    watch_overhead_workload.py SERVICE PORT CONTROL FOLDER

SERVICE is `echo` (a thread for each connection), `dask`, or a server of policy_corpus_server_workload.py. The port
CONTROL takes lines. `on` and `off` switch watching, and are answered with the id of the watcher's process, or 0. `load
SECONDS` has Dask's client submit tasks for that time, and is answered with the figures, as JSON.
"""

import json
import socket
import sys
import threading
import time


def serve(one):
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := one.recv(4096):
        one.sendall(data)


def echo(port):
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=[connection], daemon=True).start()


def obey(control, folder):
    """Serve the control port."""
    import headway

    watch = None
    with socket.create_server(("127.0.0.1", control)) as listener:
        connection, _ = listener.accept()
        with connection, connection.makefile("r") as lines:
            for line in lines:
                if line.startswith("load"):
                    connection.sendall((json.dumps(load(float(line.split()[1]))) + "\n").encode())
                    continue
                if watch is not None:
                    watch.stop()
                watch = headway.watch(folder, quiet=True) if line.strip() == "on" else None
                connection.sendall(f"{watch.watcher if watch else 0}\n".encode())


CLIENT = []
BATCH = 50


def same(number):
    return number


def load(seconds):
    """Have Dask run tasks for this time, in batches; return the tasks in a second, and the longest batch."""
    took = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        since = time.perf_counter()
        CLIENT[0].gather(CLIENT[0].map(same, range(BATCH), pure=False))
        took.append(time.perf_counter() - since)
    rate = len(took) * BATCH / (time.perf_counter() - begun)
    return {"requests_per_s": rate, "longest_s": max(took)}


def dask(control, folder):
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        CLIENT.append(Client(cluster))
        obey(control, folder)


def main():
    service, port, control, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if service == "dask":
        dask(control, folder)
        return
    threading.Thread(target=obey, args=[control, folder], daemon=True, name="control").start()
    if service == "echo":
        echo(port)
    else:
        import policy_corpus_server_workload

        policy_corpus_server_workload.SERVERS[service](port, 0)


if __name__ == "__main__":
    main()
