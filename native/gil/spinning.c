// SPDX-License-Identifier: MIT
#include "gil/spinning.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/pause.h"
#include "base/tls.h"
#include "headway/clock.h"

#define REGISTERS 6 /* registers that a call preserves: x86-64 psABI, figure 3.4 */
#define PLACES 8    /* places in the interpreter's code that spin; further ones are not known */
#define MOST_YIELDS 0xFF /* above the count of yields in one spin, below every address */
#define UNKNOWN 0
#define NEVER (-1)

int64_t hw__spinning_fresh_ns = 20000;

/* One park for another lock proves nothing: the thread got the lock that it had spun for, and the
 * lock that it wanted next had waiters already, for which no thread spins. In trials with up to 16
 * locks no two such parks came in a row. */
#define DOUBTS 3

/* The limit for the whole calibration, in time and in tries. One try may teach nothing, where its
 * thread was off the core between its last yield and the park. */
#define PATIENCE_NS 200000000
#define TRIES 20

struct place {
    _Atomic uintptr_t site; /* the return address of sched_yield(); 0: none */
    /* The register's number, from 1; UNKNOWN or NEVER. Relaxed: any of its values will do. */
    _Atomic int number;
    /* Parks in a row for another lock than the register's. Relaxed: any of its values will do. */
    _Atomic int doubts;
};

static struct place places[PLACES];
static int (*call)(uintptr_t lock, bool same_spin); /* written before the hook is in place */

/* The calibration's PyMutex; the number of parks for it; and whether the register was known after
 * the last of them. All three are sequentially consistent: they are rarely used. */
static _Atomic uint8_t mutex;
static _Atomic int mutex_parks;
static atomic_bool mutex_known;

/* The last yield of the calling thread: its registers, its place in the code and its time. */
struct yield {
    uintptr_t registers[REGISTERS];
    struct place *place;
    int64_t at_ns;
};
static HW__TLS struct yield last;

static struct place *place_of(uintptr_t site) {
    for (int i = 0; i < PLACES; i++) {
        uintptr_t known = atomic_load_explicit(&places[i].site, memory_order_relaxed);
        if (known == site ||
            (known == 0 &&
             (atomic_compare_exchange_strong(&places[i].site, &known, site) || known == site))) {
            return &places[i];
        }
    }
    return NULL;
}

/* Returns whether the registers are those of the next yield in one spin: one small number is one
 * more, and the others are the same. */
static bool counts_on(const uintptr_t *before, const uintptr_t *now) {
    int counts = 0;
    for (int i = 0; i < REGISTERS; i++) {
        bool count = now[i] == before[i] + 1 && now[i] <= MOST_YIELDS;
        if (now[i] != before[i] && !count) {
            return false;
        }
        counts += count;
    }
    return counts == 1;
}

/* Called by hw__spinning_stub() with the caller's registers and return address. */
__attribute__((used, visibility("hidden"))) int hw__spinning_yield(const uintptr_t *registers,
                                                                   uintptr_t site) {
    struct place *place = place_of(site);
    int number = place == NULL ? NEVER : atomic_load_explicit(&place->number, memory_order_relaxed);
    bool same_spin = place != NULL && place == last.place && counts_on(last.registers, registers);
    memcpy(last.registers, registers, sizeof last.registers);
    last.place = place;
    int result = call(number > 0 ? registers[number - 1] : 0, same_spin);
    last.at_ns = hw_now_ns();
    return result;
}

/* Learns the register of the place where the calling thread yielded last, from a park for `lock`.
 * Returns whether the register is known. */
static bool learn(uintptr_t lock) {
    struct place *place = last.place;
    if (place == NULL) {
        return false;
    }
    int number = atomic_load_explicit(&place->number, memory_order_relaxed);
    if (hw_now_ns() - last.at_ns > hw__spinning_fresh_ns) {
        return number > 0;
    }
    last.place = NULL;
    if (number > 0 && last.registers[number - 1] == lock) {
        atomic_store_explicit(&place->doubts, 0, memory_order_relaxed);
    } else if (number > 0 &&
               atomic_fetch_add_explicit(&place->doubts, 1, memory_order_relaxed) + 1 == DOUBTS) {
        atomic_store_explicit(&place->number, NEVER, memory_order_relaxed);
        return false;
    }
    for (int i = 0; number == UNKNOWN && i < REGISTERS; i++) {
        if (last.registers[i] == lock) {
            atomic_store_explicit(&place->number, i + 1, memory_order_relaxed);
            return true;
        }
    }
    return number > 0;
}

void hw__spinning_learn(uintptr_t lock) {
    bool known = learn(lock);
    if (lock == (uintptr_t)&mutex) {
        atomic_store(&mutex_known, known);
        atomic_fetch_add(&mutex_parks, 1);
    }
}

#ifdef __x86_64__
/* The registers are still the caller's: no code has run in between. They are stored to be read, and
 * need not be restored, since hw__spinning_yield() preserves them. */
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden hw__spinning_stub\n"
        ".globl hw__spinning_stub\n"
        ".type hw__spinning_stub, @function\n"
        "hw__spinning_stub:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    mov (%rsp), %rsi\n"
        "    sub $56, %rsp\n"
        ".cfi_adjust_cfa_offset 56\n"
        "    mov %rbx, (%rsp)\n"
        "    mov %rbp, 8(%rsp)\n"
        "    mov %r12, 16(%rsp)\n"
        "    mov %r13, 24(%rsp)\n"
        "    mov %r14, 32(%rsp)\n"
        "    mov %r15, 40(%rsp)\n"
        "    mov %rsp, %rdi\n"
        "    call hw__spinning_yield\n"
        "    add $56, %rsp\n"
        ".cfi_adjust_cfa_offset -56\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size hw__spinning_stub, .-hw__spinning_stub\n");
int hw__spinning_stub(void);
#else
/* On other machines the registers are not read: the lock is not known before the thread parks. */
static int hw__spinning_stub(void) { return call(0, false); }
#endif

uintptr_t hw__spinning_replacement(int (*function)(uintptr_t lock, bool same_spin)) {
    call = function;
    return (uintptr_t)hw__spinning_stub;
}

static void (*lock_mutex)(_Atomic uint8_t *);
static void (*unlock_mutex)(_Atomic uint8_t *);

static void *contend(void *unused) {
    lock_mutex(&mutex);
    unlock_mutex(&mutex);
    return unused;
}

/* Holds the mutex until a second thread has come to the hook of its park: a PyMutex that is
 * released earlier is acquired without a park. Returns whether a further try may help. */
static bool calibrate_once(int64_t until_ns) {
    sigset_t all, before;
    sigfillset(&all);
    int parks = atomic_load(&mutex_parks);
    lock_mutex(&mutex);
    pthread_t thread;
    pthread_sigmask(SIG_BLOCK, &all, &before); /* the program's handlers run in its own threads */
    bool started = pthread_create(&thread, NULL, contend, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    unsigned rounds = 0;
    while (started && atomic_load(&mutex_parks) == parks && hw_now_ns() < until_ns) {
        hw__pause(&rounds);
    }
    unlock_mutex(&mutex);
    if (started) {
        pthread_join(thread, NULL);
    }
    return started && !atomic_load(&mutex_known) && hw_now_ns() < until_ns;
}

void hw__spinning_calibrate(void) {
    lock_mutex = (void (*)(_Atomic uint8_t *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyMutex_Lock");
    unlock_mutex = (void (*)(_Atomic uint8_t *))(uintptr_t)dlsym(RTLD_DEFAULT, "PyMutex_Unlock");
    if (lock_mutex == NULL || unlock_mutex == NULL) {
        return;
    }
    int64_t until_ns = hw_now_ns() + PATIENCE_NS;
    for (int i = 0; i < TRIES && calibrate_once(until_ns); i++) {
    }
}
