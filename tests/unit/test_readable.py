"""Waits for descriptors of any number, and for the watcher's process."""

import fcntl
import os
import resource
import subprocess

import pytest

from headway.live.channel import Channel
from headway.live.readable import becomes_readable
from headway.live.watching import Watch

BEYOND = 1024
"""The first number that select() refuses."""


@pytest.fixture
def many():
    """Let this process open files with numbers beyond those of select()."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 2 * BEYOND:
        pytest.skip("the limit of open files is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * BEYOND, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("many")
def test_a_descriptor_of_a_large_number_is_waited_for():
    """A service with many connections gives its next descriptor such a number."""
    end, begin = os.pipe()
    large = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, BEYOND)
    try:
        assert not becomes_readable(large, 0)
        os.write(begin, b"x")
        assert becomes_readable(large, 60)
    finally:
        for one in (end, begin, large):
            os.close(one)


@pytest.mark.usefixtures("many")
def test_a_command_with_many_descriptors_hears_a_process():
    """`headway attach` has some for each process that it records."""
    with Channel() as channel:
        listener = fcntl.fcntl(channel._listener.fileno(), fcntl.F_DUPFD_CLOEXEC, BEYOND)
        channel._listener.close()
        channel._listener = type(channel._listener)(fileno=listener)

        assert channel.accept(os.getpid(), 0, lambda: None) is None


def test_the_end_of_a_watch_does_not_wait_for_a_stranger(tmp_path):
    """Another process may have the watcher's id, if the watcher was killed."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert Watch(tmp_path, other.pid).finish(0)
        finally:
            other.kill()
