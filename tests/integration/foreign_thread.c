// SPDX-License-Identifier: MIT
/* Calls a function of Python from a thread that Python has not made. Called through ctypes.CDLL, so
 * without the GIL. */
#include <pthread.h>
#include <stdint.h>

struct calls {
    void (*callback)(int);
    int times;
};

static void *call(void *given) {
    const struct calls *calls = given;
    for (int number = 0; number < calls->times; number++) {
        calls->callback(number);
    }
    return NULL;
}

/* Returns 0 when all calls have returned, or the error of pthread_create(). */
int call_from_a_thread(void (*callback)(int), int times) {
    struct calls calls = {callback, times};
    pthread_t thread;
    int error = pthread_create(&thread, NULL, call, &calls);
    return error != 0 ? error : pthread_join(thread, NULL);
}
