"""Services that bench/watch_overhead.py asks, in which watching is switched on and off.

    watch_overhead_workload.py SERVICE PORT CONTROL FOLDER

SERVICE is `echo`, a thread for each connection, or a server of policy_corpus_server_workload.py. Each line that comes to the
port CONTROL, `on` or `off`, is done and answered: with the watcher's process, or 0.
"""

import socket
import sys
import threading


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
    """Switch as told."""
    import headway

    watch = None
    with socket.create_server(("127.0.0.1", control)) as listener:
        connection, _ = listener.accept()
        with connection, connection.makefile("r") as lines:
            for line in lines:
                if watch is not None:
                    watch.stop()
                watch = headway.watch(folder, quiet=True) if line.strip() == "on" else None
                connection.sendall(f"{watch.watcher if watch else 0}\n".encode())


def main():
    service, port, control, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    threading.Thread(target=obey, args=[control, folder], daemon=True, name="control").start()
    if service == "echo":
        echo(port)
    else:
        import policy_corpus_server_workload

        policy_corpus_server_workload.SERVERS[service](port, 0)


if __name__ == "__main__":
    main()
