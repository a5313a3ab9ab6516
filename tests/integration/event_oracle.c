// SPDX-License-Identifier: MIT
/* Calls that acquire and release the GIL, or a lock, each with the time before
 * and after it. This file knows nothing of the recorder.
 *
 * A call's times go into a book of its thread, in a file that is mapped: they
 * outlive a kill. All functions that Python calls are for ctypes.PyDLL, so they
 * are called with the GIL held. They run no Python, so a thread has no other
 * event from its first call in a window to the last one.
 *
 * A length is in ns: above 0 the thread sleeps, below 0 it computes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void *PyThreadState_Get(void);
extern void *PyThreadState_New(void *);
extern void *PyThreadState_Swap(void *);
extern void PyThreadState_Clear(void *);
extern void PyThreadState_DeleteCurrent(void);
extern void *Py_NewInterpreter(void);
extern void Py_EndInterpreter(void *);

/* Python.h of 3.9, of 3.12 and of 3.13; NULL in older ones. */
struct config {
    int main_allocator, may_fork, may_exec, may_thread, may_have_daemons, strict_extensions, gil;
};
struct status {
    int type;
    const char *function, *message;
    int exit_code;
};
#define NEWER extern __attribute__((weak))
NEWER void *PyThreadState_GetInterpreter(void *);
NEWER struct status Py_NewInterpreterFromConfig(void **, const struct config *);
NEWER void PyMutex_Lock(uint8_t *);
NEWER void PyMutex_Unlock(uint8_t *);
NEWER void PyCriticalSection_Begin(void *, void *);
NEWER void PyCriticalSection_End(void *);

/* Kinds of calls. oracle_books.py has the same numbers. */
enum kind {
    RELEASE = 1, /* of `gil` */
    ACQUIRE = 2, /* of `gil` */
    SWAP = 3,    /* the release of `gil`, then the acquire of `to` */
    MARK = 4,    /* no call: from `before_ns` to `after_ns` only this thread has been
                    at a mark */
    WINDOW = 5,  /* no call: what happened since the last one is not in the book */
    LOCK = 6,
    UNLOCK = 7,
    FORK = 8, /* no call: meanwhile the process forked, and any thread may have
                 had to wait for that */
};

struct call {
    int64_t before_ns, after_ns;
    uint16_t kind, gil, to;
    uint16_t framed;        /* the thread state has Python frames */
    uint16_t slept, pushed; /* how often the thread gave up its core to wait, and
                               how often it lost it */
    uint32_t makes;         /* the call makes a thread state or is the first to use one, and so
                               takes another lock, too */
};
struct book {
    int64_t tid;
    _Atomic int64_t count; /* of whole calls */
    char name[48];
    struct call calls[];
};
struct log {
    int64_t most_books, room;
    _Atomic int64_t books, stop;
    char rest[4064];
};
_Static_assert(sizeof(struct call) == 32 && sizeof(struct book) == 64 && sizeof(struct log) == 4096,
               "as in oracle_books.py");

static struct log *file;
static __thread struct book *mine;
static __thread int framed;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void spend(int64_t ns) {
    if (ns > 0) {
        struct timespec left = {0, ns};
        while (nanosleep(&left, &left) != 0) {
        }
    }
    for (int64_t until_ns = now_ns() - ns; ns < 0 && now_ns() < until_ns;) {
    }
}

/* Begins a file for this process. Returns 0, or -1. */
int open_log(const char *path, int64_t books, int64_t room) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t bytes =
        sizeof *file + (size_t)books * (sizeof *mine + (size_t)room * sizeof *mine->calls);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        return -1;
    }
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        return -1;
    }
    file = at;
    file->most_books = books;
    file->room = room;
    mine = 0;
    return 0;
}

/* Begins a window of the calling thread, which must come before its calls. */
void begin_window(void) {
    if (mine == 0) {
        int64_t number = atomic_fetch_add(&file->books, 1);
        size_t bytes = sizeof *mine + (size_t)file->room * sizeof *mine->calls;
        struct book *book = (struct book *)((char *)(file + 1) + (size_t)number * bytes);
        if (number >= file->most_books) {
            _exit(99);
        }
        memset(book, 0, bytes); /* no page is missing later */
        book->tid = syscall(SYS_gettid);
        pthread_getname_np(pthread_self(), book->name, sizeof book->name);
        mine = book;
    }
}

static struct call *next_call(void) {
    if (mine->count >= file->room) {
        _exit(98);
    }
    return &mine->calls[mine->count];
}

static void add(struct call call) {
    *next_call() = call;
    atomic_fetch_add(&mine->count, 1);
}

static void window(int has_frames) {
    begin_window();
    framed = has_frames;
    spend(-10000); /* no event of before is within the tolerance of the clocks */
    add((struct call){.kind = WINDOW});
}

/* A call is between begin() and end(). */
struct begun {
    int64_t before_ns;
    long slept, pushed;
};

static struct begun begin(void) {
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return (struct begun){now_ns(), used.ru_nvcsw, used.ru_nivcsw};
}

static void end(struct begun begun, enum kind kind, int gil, int to) {
    int64_t after_ns = now_ns();
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    add((struct call){.before_ns = begun.before_ns,
                      .after_ns = after_ns,
                      .kind = kind,
                      .gil = (uint16_t)gil,
                      .to = (uint16_t)to,
                      .framed = (uint16_t)framed,
                      .slept = (uint16_t)(used.ru_nvcsw - begun.slept),
                      .pushed = (uint16_t)(used.ru_nivcsw - begun.pushed)});
}

static void *release(int gil) {
    int64_t before_ns = now_ns();
    void *state = PyEval_SaveThread();
    add((struct call){.before_ns = before_ns,
                      .after_ns = now_ns(),
                      .kind = RELEASE,
                      .gil = (uint16_t)gil,
                      .framed = (uint16_t)framed});
    return state;
}

static void acquire(void *state, int gil) {
    struct begun begun = begin();
    PyEval_RestoreThread(state);
    end(begun, ACQUIRE, gil, gil);
}

/* One round of a thread: how long it is without the GIL or lock, and how long
 * it has it then. */
struct step {
    int64_t away_ns, hold_ns;
};
struct work {
    int64_t rounds, count;
    const struct step *steps;
    int64_t kill_at; /* the round in which the process kills itself; -1: none */
};

static void take_turns(const struct work *work, int gil) {
    for (int64_t i = 0; i < work->rounds && !file->stop; i++) {
        const struct step *step = &work->steps[i % work->count];
        void *state = release(gil);
        spend(step->away_ns);
        acquire(state, gil);
        spend(step->hold_ns);
        if (i == work->kill_at) {
            kill(getpid(), SIGKILL);
        }
    }
}

/* Releases and acquires the GIL by turns. */
void turns(const struct work *work) {
    window(1);
    take_turns(work, 0);
}

static _Atomic int spans;

/* The thread holds the GIL now. Returns how often another thread than before
 * was at a mark. */
int mark(void) {
    static struct book *last; /* guarded by the GIL */
    int64_t at_ns = now_ns();
    if (last == mine) {
        mine->calls[mine->count - 1].after_ns = at_ns;
    } else {
        add((struct call){.before_ns = at_ns, .after_ns = at_ns, .kind = MARK});
        last = mine;
        spans++;
    }
    return spans;
}

/* Since `before_ns` the calling thread has forked. */
void forked(int64_t before_ns) {
    begin_window();
    add((struct call){.before_ns = before_ns, .after_ns = now_ns(), .kind = FORK});
}

/* A thread that C has made. */
struct foreign {
    const struct work *work;
    int number, gil;
    void *interpreter; /* for an own thread state */
    void **handed;     /* a thread state that goes round among `among` threads */
    sem_t *turn;       /* of each of them */
    int among;
    pthread_t thread;
};

/* Calls back as a C library does: each time with a new thread state, and once
 * more within the call. */
static void call_back(const struct foreign *me) {
    for (int64_t i = 0; i < me->work->rounds; i++) {
        const struct step *step = &me->work->steps[i % me->work->count];
        struct begun begun = begin();
        int had = PyGILState_Ensure();
        end(begun, ACQUIRE, 0, 0);
        mine->calls[mine->count - 1].makes = 1;
        PyGILState_Release(PyGILState_Ensure());
        spend(step->hold_ns);
        begun = begin();
        PyGILState_Release(had);
        end(begun, RELEASE, 0, 0);
        spend(step->away_ns);
    }
}

static void delete_current(void *state, int gil) {
    PyThreadState_Clear(state);
    struct begun begun = begin();
    PyThreadState_DeleteCurrent();
    end(begun, RELEASE, gil, gil);
}

/* Takes turns in an interpreter, with a thread state of its own. */
static void visit(const struct foreign *me) {
    void *state = PyThreadState_New(me->interpreter);
    acquire(state, me->gil);
    /* From 3.14 on, the first use of a thread state asks for the limits of the
     * thread's stack (pthread_getattr_np), which takes memory and locks. */
    mine->calls[mine->count - 1].makes = 1;
    take_turns(me->work, me->gil);
    delete_current(state, me->gil);
}

/* Uses a thread state that the other threads use, too. Thread 0, which had it
 * first, deletes it. */
static void hand_round(const struct foreign *me) {
    for (int64_t i = 0; i <= me->work->rounds; i++) {
        const struct step *step = &me->work->steps[i % me->work->count];
        sem_wait(&me->turn[me->number]);
        if (i < me->work->rounds || me->number == 0) {
            acquire(*me->handed, 0);
            spend(step->hold_ns);
        }
        if (i < me->work->rounds) {
            *me->handed = release(0);
        } else if (me->number == 0) {
            delete_current(*me->handed, 0);
        }
        sem_post(&me->turn[(me->number + 1) % me->among]);
    }
}

static void *foreign_thread(void *argument) {
    struct foreign *me = argument;
    char name[16];
    snprintf(name, sizeof name, "foreign %d", me->number);
    pthread_setname_np(pthread_self(), name);
    window(0);
    (me->handed != 0 ? hand_round : me->interpreter != 0 ? visit : call_back)(me);
    return 0;
}

static void run_all(struct foreign *ones, int count) {
    window(1);
    void *state = release(0);
    for (int i = 0; i < count; i++) {
        pthread_create(&ones[i].thread, 0, foreign_thread, &ones[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ones[i].thread, 0);
    }
    acquire(state, 0);
}

/* Has threads call back. */
void foreign(int count, const struct work *work) {
    struct foreign ones[16];
    for (int i = 0; i < count; i++) {
        ones[i] = (struct foreign){.work = work, .number = i};
    }
    run_all(ones, count);
}

static void *interpreter_of(void *state) {
    /* struct _ts of 3.8: prev, next, interp */
    return PyThreadState_GetInterpreter != 0 ? PyThreadState_GetInterpreter(state)
                                             : ((void **)state)[2];
}

/* Has threads use one thread state by turns. */
void handed(int count, const struct work *work) {
    struct foreign ones[16];
    sem_t turn[16];
    void *state = PyThreadState_New(interpreter_of(PyThreadState_Get()));
    for (int i = 0; i < count; i++) {
        sem_init(&turn[i], 0, i == 0);
        ones[i] = (struct foreign){
            .work = work, .number = i, .handed = &state, .turn = turn, .among = count};
    }
    run_all(ones, count);
}

/* Has two threads each use one of `count` new interpreters, with or without
 * GILs of their own; then swaps thread states itself. Returns 0, or -1 where an
 * interpreter cannot be made. */
int interpreters(int count, int own, const struct work *work) {
    struct foreign ones[16];
    void *states[8], *main_state = PyThreadState_Get();
    for (int i = 0; i < count; i++) {
        const struct config config = {.may_thread = 1, .strict_extensions = 1, .gil = 2};
        states[i] = 0;
        if (own) {
            Py_NewInterpreterFromConfig(&states[i], &config);
        } else {
            states[i] = Py_NewInterpreter();
        }
        if (states[i] == 0) {
            return -1;
        }
        PyThreadState_Swap(main_state);
        for (int j = 0; j < 2; j++) {
            ones[2 * i + j] = (struct foreign){.work = work,
                                               .number = 2 * i + j,
                                               .gil = own ? i + 1 : 0,
                                               .interpreter = interpreter_of(states[i])};
        }
    }
    run_all(ones, 2 * count);

    /* From 3.12 on, a swap releases and acquires. Before, the thread keeps the
     * GIL. */
    int moves = &Py_NewInterpreterFromConfig != 0;
    window(1);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < count; i++) {
            struct begun begun = begin();
            PyThreadState_Swap(states[i]);
            if (moves) {
                end(begun, SWAP, 0, own ? i + 1 : 0);
            }
            framed = 0;
            spend(work->steps[0].hold_ns);
            begun = begin();
            PyThreadState_Swap(main_state);
            if (moves) {
                end(begun, SWAP, own ? i + 1 : 0, 0);
            }
            framed = 1;
        }
    }
    window(1);
    for (int i = 0; i < count; i++) {
        PyThreadState_Swap(states[i]);
        Py_EndInterpreter(states[i]);
        PyThreadState_Swap(main_state);
    }
    return 0;
}

/* Locks a mutex, or the object's lock if there is an object, by turns. */
void lock_turns(const struct work *work, void *object) {
    static uint8_t mutex;
    window(1);
    for (int64_t i = 0; i < work->rounds; i++) {
        const struct step *step = &work->steps[i % work->count];
        void *section[8];
        spend(step->away_ns);
        struct begun begun = begin();
        if (object != 0) {
            PyCriticalSection_Begin(section, object);
        } else {
            PyMutex_Lock(&mutex);
        }
        end(begun, LOCK, 0, 0);
        spend(step->hold_ns);
        begun = begin();
        if (object != 0) {
            PyCriticalSection_End(section);
        } else {
            PyMutex_Unlock(&mutex);
        }
        end(begun, UNLOCK, 0, 0);
    }
}
