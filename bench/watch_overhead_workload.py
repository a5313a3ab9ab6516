"""An echo server with a thread for each connection, for bench/watch_overhead.py: watch_overhead_workload.py PORT."""

import socket
import sys
import threading


def serve(one):
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := one.recv(4096):
        one.sendall(data)


def main():
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=[connection], daemon=True).start()


if __name__ == "__main__":
    main()
