"""The process of `headway watch`: keeps the last seconds of each watched process, and reports why one stalled.

Ten times a second the watcher copies new events, and learns which event loops and requests took too long. More often,
the watcher looks at threads that hold the GIL for long. When something has stalled, the watcher writes the ring as a
trace, and another process (headway.live.stalled) finds the cause from the trace. Nothing here takes a GIL of the
watched processes, or runs in them.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, final

from headway.agent import STARTUP_PATH
from headway.live.allowance import Allowance
from headway.live.detached import Program, alone, detached
from headway.live.door import Door, Reception
from headway.live.exposition import ServiceTotals, Totals
from headway.live.kept import partial_of, recording_of, remove_oldest, save_to_file, save_to_memory
from headway.live.left import Left
from headway.live.marks import Mark
from headway.live.options import WATCHER_NAME, Options
from headway.live.outlived import Outlived, let_go_of_stderr
from headway.live.reports import LeftOut, Report, begin, has_room, most_waiting, next_to_begin
from headway.live.ring import Ring
from headway.live.said import Said
from headway.live.stall_log import Gaps
from headway.live.unreached import Unreached
from headway.live.untold import Untold
from headway.live.unwatched import Unwatched
from headway.live.upkeep import Upkeep
from headway.live.watched import AGAIN_NS, MANY, RARELY_NS, Watched, counts_of
from headway.live.watchers_counts import add_stalls
from headway.native import Wakes, wait_for_threads

__all__ = ["main"]

_COPY_NS: Final = 100_000_000
_LEAST_TICK_S, _MOST_TICK_S = 0.005, 0.05
_EACH_S: Final = 20e-6
"""The time that each thread adds between two looks: a look takes some two microseconds per thread."""
_TICKS: Final = 5
"""The number of looks within the shortest stall."""
_JUST_ASKED_NS: Final = 1_000_000_000
"""A process that calls so soon after a request for a recording gets one, too."""
_OVERLAP_NS: Final = 1_000_000_000
"""Stalls that were over so long before the last report were in that report."""
_LINGER_S: Final = 1.0
_EVIDENCE_NS: Final = 15_000_000_000
"""What was observed so long before a stall was seen belongs to its recording."""
_MOST_RINGS: Final = 256
_NONE: Final = "no recording is written, because no process is watched"


@final
class Watcher:
    """Watches the processes that call at a door."""

    def __init__(self, door: Door, options: Options) -> None:
        """Begin to accept processes that call at the door."""
        self._options, self._folder = options, Path(options.folder)
        self._said = Said(quiet=options.quiet)
        self._rings: list[Watched] = []
        self._has_watched = False
        """Whether a process has ever called. A process may call, and be gone before the first look at it."""
        self._reports: list[Report] = []
        self._left = Left()
        self._untold = Untold(self._folder)
        self._unreached = Unreached(0 if options.own or options.is_told else options.pid, "watched", self.say)
        self._unwatched = Unwatched(self.log, door.path, self.say, None if options.own else STARTUP_PATH)
        self._mark = Mark(self.log, options.pid)
        self._gaps = Gaps(self.log)
        self._left_out = LeftOut(self._gaps, self.say)
        self._outlived = Outlived(options.name, self.log, self.say)
        self._allowance, self._upkeep = Allowance(), Upkeep()
        self._written = deque[Path](maxlen=max(options.keep, _MOST_RINGS) + 1)
        """This watcher's recordings, oldest first."""
        self._reception = Reception(door, self._begin, self._unwatched.refused, lambda pid: counts_of(self._rings, pid))
        self._dump, self._asked_ns = False, 0
        """When a recording was last requested."""
        self._asked_of = 0
        """Of how many processes: their recordings are kept, however few are to be kept otherwise."""
        self._unanswered_ns = 0
        """When a recording was requested of no process; 0: it was not, or a process has called since then."""
        self._attentive = False
        """Whether the last wait ended because of a thread."""
        self._unwritten = ""
        """What was said last of a recording that could not be written."""
        self._service = ServiceTotals()
        self._tick_s = min(_MOST_TICK_S, max(_LEAST_TICK_S, options.limits.shortest_ns / 1e9 / _TICKS))

    @property
    def pid(self) -> int:
        """The process that is watched together with its children."""
        return self._options.pid

    @property
    def watches(self) -> bool:
        """Whether any process is watched now. Any thread may ask."""
        return bool(self._rings)

    @property
    def log(self) -> Path:
        """The file that stalls are written to, one line each."""
        return self._options.log

    def totals(self) -> Totals:
        """Return the totals up to now, over all processes. Any thread may call it."""
        return self._service.now([one.ring for one in list(self._rings)], time.monotonic_ns())

    def _remove_oldest(self) -> None:
        keep = max(self._options.keep, self._asked_of)
        remove_oldest(self._folder, self._options.name, keep, self._written)

    def ask(self, *_: object) -> None:
        """Request a recording of each process, as soon as possible."""
        self._dump = True

    def run(self, program: Program) -> None:
        """Watch until the program and all watched processes have ended, and their last stalls are reported."""
        self._remove_oldest()  # a run that is killed before its first report removes nothing
        ended_s, idle_s, ended_ns = 0.0, 0.0, 0
        while True:
            self._step()
            has_ended = program.ended()
            self._unreached.look(called=self._has_watched)
            if has_ended and not self._mark.is_end_noted:
                ended_ns = ended_ns or time.monotonic_ns()
                self._note_end(ended_ns)
            is_left = self._options.own and self._has_watched and not self._rings
            if not is_left and not has_ended:
                ended_s = idle_s = 0.0  # another process may have come
                continue
            now_s = time.monotonic()
            ended_s = ended_s or now_s
            alive = [one.ring for one in self._rings if not one.ring.gone]
            idle_s = 0.0 if alive else idle_s or now_s
            if not self._rings and not self._reports and not self._reception.busy:
                self._unreached.look(called=self._has_watched, over=has_ended)
                let_go_of_stderr()
                self._end_mark()  # a container may end now, and we with it: no stall is missing then
                if now_s - idle_s > _LINGER_S:
                    break
            elif alive and not self._outlived.are_watched_on(alive, now_s - ended_s):
                break
        for one in self._rings:
            one.ring.close()
        self._upkeep.close()
        self._reception.close()
        self._end_mark()

    def say(self, text: str) -> None:
        """Print a message on stderr, once."""
        self._said.say(text)

    def _begin(self, memory: int, pid: int) -> None:
        # The kernel has no id for a process in a PID namespace that we cannot see into: there may be several.
        for one in [one for one in self._rings if one.ring.pid == pid > 0]:
            self._over(one)  # the process has executed another program
        if len(self._rings) >= _MOST_RINGS:
            self._unwatched.refused(f"{_MOST_RINGS} processes are watched already")
            return
        ring = Ring(memory, pid, self._options.limits, self._upkeep)
        if ring.pidfd >= 0:
            self._reception.keep(ring.pidfd, ring.end)
        if ring.tells:
            self._begin_log()
        self._left.forget(pid)
        # A process that requests a recording as soon as it has called may be heard before it is let in.
        just_asked = self._asked_ns != 0 and time.monotonic_ns() - self._asked_ns < _JUST_ASKED_NS
        self._asked_of += just_asked
        self._rings.append(Watched(ring, asked=just_asked))
        self._has_watched = True

    def _begin_log(self) -> None:
        """Create the log: a log without lines tells that nothing stalled, and no log that nothing was watched."""
        try:
            os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            self.say(f"the log {self.log} cannot be written: {error.strerror or error}")
        self._mark.begin()

    def _step(self) -> None:
        self._wait()
        self._mark_untold()
        is_watching = bool(self._rings or self._reports)
        now_ns = time.monotonic_ns()
        asked, self._dump = self._dump, False
        if asked:
            self._asked_ns, self._asked_of = now_ns, len(self._rings)
        for one in list(self._rings):
            one.asked = one.asked or asked
            if one.ring.gone and self._is_told_of(one):
                continue  # waits for the report in progress, so that the last report need not repeat its stalls
            self._look(one, time.monotonic_ns())  # the report on the process before may have taken long
            self._unwatched.see(one, now_ns)
            if one.ring.blind:
                self._said.say_of(one.ring.pid, one.ring.blind)
            if one.ring.gone and not self._is_told_of(one):
                self._over(one)
        self._unwatched.keep_door(self._reception, now_ns)
        self._tell_of_none(now_ns, asked=asked and not is_watching)
        self._collect()
        self._gaps.write_again(now_ns)
        self._begin_analyses(time.monotonic_ns())

    def _mark_untold(self) -> bool:
        """Mark the folder if stalls of ended processes are to be told, or unmark it; return whether that is done."""
        watched = [*self._rings, *(report.watched for report in self._reports)]
        return self._untold.mark(any(one.ring.gone for one in watched))

    def _note_end(self, ended_ns: int) -> None:
        """Note the program's end as soon as all of its processes that had ended by then are known to have ended."""
        self._reception.answer(0)
        are_known = all(one.ring.gone or one.copied_ns > ended_ns for one in self._rings)
        if are_known and not self._reception.busy and self._mark_untold():
            self._mark.note_end()

    def _end_mark(self) -> None:
        self._gaps.write()  # without the mark and without the note, the log would be taken for complete
        self._mark.end()

    def _tell_of_none(self, now_ns: int, *, asked: bool) -> None:
        """Say which processes are not watched any more, and that a recording was requested of none."""
        for pid in self._left.alive(now_ns):
            self.say(
                f"process {pid} is no longer watched: its recording was ended, as by `headway detach`;"
                " only a restart of the process begins another one"
            )
        if self._rings or asked:
            self._unanswered_ns = 0 if self._rings else now_ns
        if self._unanswered_ns and now_ns - self._unanswered_ns >= _JUST_ASKED_NS:
            self._unanswered_ns = 0
            self._said.forget(_NONE)
            self.say(_NONE)

    def _wait(self) -> None:
        """Wait until a process calls, a thread is worth a look, or new events must be copied.

        After a look because of a thread, the next look follows a tick later: the thread's activity may end, and its end
        must be known to within a tick.
        """
        alive = [one for one in self._rings if not one.ring.gone]
        if not alive:
            self._reception.answer(_MOST_TICK_S)
            return
        threads = sum(one.ring.threads for one in alive)
        tick_ns = round(1e9 * max(self._tick_s, threads * _EACH_S))
        until_ns = min(one.copied_ns for one in alive) + _COPY_NS
        if self._dump:
            until_ns = 0
        elif self._attentive:
            until_ns = min(until_ns, time.monotonic_ns() + tick_ns)
        woken = wait_for_threads(
            [one.ring.collection for one in alive],
            alive[0].ring.worth,
            tick_ns=tick_ns,
            until_ns=until_ns,
            descriptor=self._reception.descriptor,
        )
        self._attentive = woken is Wakes.THREAD
        if woken is Wakes.READY or self._reception.busy:
            self._reception.answer(0)

    def _is_told_of(self, one: Watched) -> bool:
        """Tell whether a report on a recording of this process is in progress."""
        return any(report.watched is one for report in self._reports)

    def _look(self, one: Watched, now_ns: int) -> None:
        if self._allowance.leaves(one.over_ns, now_ns):
            one.over_ns, one.is_left = 0, True
        for doubt in one.doubts:
            if self._allowance.leaves(doubt.seen_ns, now_ns):
                doubt.seen_ns, one.is_left = 0, True
        queued, waits = one.ring.look(now_ns)
        if queued:
            one.over_ns = one.over_ns or now_ns
        if waits:
            one.waits.see(now_ns)
        if now_ns - one.copied_ns >= _COPY_NS or one.ring.gone or one.asked or one.ring.collection.fills():
            one.copied_ns = now_ns
            one.copy(now_ns)
        if self._is_told_of(one):
            return
        if one.asked or (one.is_due(now_ns, self._allowance) and self._has_room()):
            self._report(one, now_ns)

    def _has_room(self) -> bool:
        """Tell whether a further recording may wait for its analysis."""
        alive = sum(not one.ring.gone for one in self._rings)
        return has_room(self._reports, most_waiting(self._options.keep, alive))

    def _report(self, one: Watched, now_ns: int) -> None:
        """Write a recording, which is analysed as soon as few enough others are."""
        one.not_before_ns = now_ns + one.pause_ns
        reported_ns, one.reported_ns = one.reported_ns, now_ns
        one.is_told = one.open_ns > 0
        reasons = one.seen_ns
        seen_ns = min(reasons, default=now_ns)
        one.over_ns = one.grown_ns = 0
        for doubt in one.doubts:
            doubt.begin(now_ns)
        asked, one.asked, one.is_left = one.asked, False, False
        # A stall that is over only now may go on in the recording, whose last millisecond is incomplete. It will be
        # reported again.
        one.copy(now_ns, hurry=True)
        path = recording_of(self._folder, self._options.name, one.ring.pid)
        told = {
            "evidence": one.ring.evidence(now_ns, min(one.told.oldest_ns or now_ns, seen_ns - _EVIDENCE_NS))
            | {"clock": [time.time_ns(), time.monotonic_ns()]},
            "limits": self._options.limits._asdict(),
            "told": one.told.lengths_ns,
            "parts": one.told.parts,
            "gone_ns": one.ring.gone_ns,
            "finished": one.ring.finished,
            "since_ns": reported_ns - _OVERLAP_NS,
            "log": str(self.log),
            "asked": asked,
            "quiet": self._options.quiet,
        }
        try:
            file, is_in_memory = self._save(one, path)
        except OSError as error:
            self._put_off(one, path, error, reported_ns, now_ns)
            return
        words = json.dumps(told | {"in_memory": file if is_in_memory else -1}).encode()
        report = Report(None, None, one, path, asked, is_in_memory, file=file, told=words, before_ns=reported_ns)
        report.is_second = bool(reasons) and self._allowance.is_beside(seen_ns)
        self._reports.append(report)
        self._begin_analyses(now_ns)

    def _begin_analyses(self, now_ns: int) -> None:
        """Begin to analyse recordings: a few at a time, as an analysis takes memory of the service's container."""
        while reports := next_to_begin(self._reports):
            try:
                begin(reports, now_ns)
            except OSError as error:
                for report in reports:
                    self._reports.remove(report)
                    self._put_off(report.watched, report.path, error, report.before_ns, now_ns)
            else:
                for _ in reports:
                    self._allowance.begin(now_ns)

    def _put_off(self, one: Watched, path: Path, error: OSError, reported_ns: int, now_ns: int) -> None:
        """Leave a report to a later time, when there may be room, as long as the ring still has the stall."""
        self._say_unwritten(error)
        with contextlib.suppress(OSError):
            partial_of(path).unlink()
        if one.ring.gone:  # this was its last report
            self._gaps.note(self._unwritten)
        one.reported_ns, one.over_ns, one.is_told = reported_ns, now_ns, False

    def _save(self, one: Watched, path: Path) -> tuple[int, bool]:
        """Write a recording to its file, or to memory if there is no room: the cause of a stall is told in any case.

        Returns:
            A descriptor, and whether it is that of a recording in memory.

        Raises:
            OSError: The recording cannot be written to memory either.
        """
        try:
            file = save_to_file(path, one.ring.save)
        except OSError as error:
            self._say_unwritten(error)
            return save_to_memory(one.ring.save), True
        self._said.forget(self._unwritten)  # a later failure is another one
        return file, False

    def _say_unwritten(self, error: OSError) -> None:
        self._unwritten = f"a recording could not be written in {self._folder}: {error.strerror or error}"
        self.say(self._unwritten)

    def _collect(self) -> None:
        """Read the results of the processes that have analysed recordings."""
        now_ns = time.monotonic_ns()
        for report in [one for one in self._reports if one.has_ended(now_ns)]:
            self._reports.remove(report)
            found = report.result()
            if found is None:
                found = {"stalls": [], "told": {}}
                if report.keep_unexplained():
                    why = f"a stall could not be explained{report.why}; {report.path} has the recording"
                    report.asked = True  # keeps the recording
                else:
                    why = f"a stall could not be explained{report.why}, and has no recording"
                self.say(why)
                self._gaps.note(why)
            self._allowance.end(
                report.began_ns,
                now_ns,
                cpu_ns=found.get("cpu_ns", now_ns - report.began_ns),
                waited_ns=found.get("waited_ns", 0),
                is_second=report.is_second,
            )
            if report.lacks_memory or report.was_ended:
                self._allowance.bar(now_ns)
            if found.get("unnoted"):
                self._gaps.note(found["unnoted"])
            self._learn(report, found)

    def _learn(self, report: Report, found: dict[str, Any]) -> None:
        one, now_ns = report.watched, time.monotonic_ns()
        one.told.update(found["told"], found.get("parts"))
        one.grown_ns = one.told.grown_ns(one.reported_ns)
        self._service.add_stalls(found["stalls"])
        add_stalls(one.stalls, found["stalls"])
        for doubt in one.doubts:
            doubt.learn(found=bool(found["told"]) or report.asked, not_before_ns=one.not_before_ns)
        if found["told"] or report.asked:
            self._written.append(report.path)
            self._remove_oldest()
            one.told_ns.append(now_ns)
            many = self._options.sparing and len(one.told_ns) == MANY and now_ns - one.told_ns[0] < 10 * RARELY_NS
            one.pause_ns = RARELY_NS // 3 if many else AGAIN_NS
        else:
            with contextlib.suppress(OSError):
                partial_of(report.path).unlink()

    def _over(self, one: Watched) -> None:
        """Report the last stalls of a process that is gone, and stop watching it."""
        if one.asked or (one.has_more and self._has_room()):
            self._report(one, time.monotonic_ns())
        elif one.has_more:
            self._left_out.note()
        self._service.end(one.ring, time.monotonic_ns())
        if one.ring.stopped and not (self._options.own and one.ring.pid == self.pid):  # it has ended its own watch
            self._left.note(one.ring.pid, time.monotonic_ns())
        self._rings.remove(one)
        if one.ring.pidfd >= 0:
            self._reception.forget(one.ring.pidfd)
        one.ring.close()


def main(words: list[str]) -> int:
    """Run the watcher: `python -m headway.live.watcher OPTIONS LISTENER FOLDER FAMILY`.

    headway.live.watching starts it.

    Prints the id of the process that watches, which is no child of the process that started the watcher, or why there
    is none.
    """
    options = Options.of(json.loads(words[0]))
    listener, folder, family = int(words[1]), Path(words[2]), int(words[3])
    program = Program(options.pid)

    def work() -> None:
        said = None if options.quiet else os.dup(2)
        moved, program.descriptor, said, output = alone(WATCHER_NAME, listener, program.descriptor, said, 1)
        assert moved is not None
        assert output is not None
        try:
            watcher = begun(moved, said)
        except Exception as error:
            os.write(output, f"{error}\n".encode())
            raise
        os.write(output, f"{os.getpid()}\n".encode())
        os.close(output)
        watcher.run(program)

    def begun(moved: int, said: int | None) -> Watcher:
        if said is not None:
            os.dup2(said, 2)
            os.close(said)
        os.chdir(options.folder)
        watcher = Watcher(Door.of(moved, folder, family), options)
        signal.signal(signal.SIGUSR2, watcher.ask)  # the only signal that means something to this process
        if options.listen:
            from headway.live.served import serve

            serve(watcher, options.listen)
        return watcher

    try:
        detached(work)
    except OSError as error:
        os.write(1, f"{error.strerror or error}\n".encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
