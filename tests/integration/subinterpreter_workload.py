"""Examines our pool of sub-interpreters from inside a launch."""

from faulty_workloads import Good
from headway_agent.subinterpreters import open_pool

_marks = []


def mark(fd_here, fd_go):
    import os

    os.write(fd_here, b".")
    os.read(fd_go, 1)
    _marks.append(1)
    return id(_marks)


def large(size):
    return b"x" * size


def fail():
    raise KeyError("on purpose")


class Check(Good):
    def open(self):
        self.pool = open_pool(2)
        return {}

    def sample(self):
        import os

        here, here_writer = os.pipe()
        go, go_writer = os.pipe()
        futures = [self.pool.submit(mark, here_writer, go) for _ in range(2)]
        arrived = 0
        while arrived < 2:
            arrived += len(os.read(here, 2))
        os.write(go_writer, b"..")
        identities = {future.result() for future in futures}
        for fd in (here, here_writer, go, go_writer):
            os.close(fd)
        try:
            self.pool.submit(fail).result()
            came_back = 0
        except Exception as error:  # noqa: BLE001  (each version raises another)
            came_back = int("on purpose" in str(error))
        mine = 0 if id(_marks) in identities or _marks else len(identities)
        return {
            "interpreters": mine,
            "result_bytes": len(self.pool.submit(large, 300000).result()),
            "error_came_back": came_back,
        }

    def close(self):
        self.pool.shutdown()
