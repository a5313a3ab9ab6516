// SPDX-License-Identifier: MIT
/* Memory at addresses that may be wrong is read where it is there, and only there. */
#include "gil/peek.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t.h"

#define NOTHING 0x1122334455667788u

/* The end of a page, after which nothing can be read. */
static char *end_of_memory(int protection) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T_TRUE(pages != MAP_FAILED);
    if (protection < 0) {
        T_EQ(0, munmap(pages + page, page));
    } else {
        T_EQ(0, mprotect(pages + page, page, protection));
    }
    return pages + page;
}

static void check_words(const char *end) {
    uintptr_t last = (uintptr_t)end - sizeof last, word = NOTHING;
    uintptr_t stored = (uintptr_t)0xfedcba9876543210u;
    memcpy((void *)last, &stored, sizeof stored);

    T_TRUE(hw__peek(last, &word));
    T_TRUE(word == stored);
    T_TRUE(hw__peek_is(last, stored));
    T_TRUE(!hw__peek_is(last, stored ^ 1));
    T_TRUE(!hw__peek_is(last, stored ^ (uintptr_t)1 << 63));

    word = NOTHING;
    T_TRUE(!hw__peek(last + sizeof last, &word));
    T_TRUE(!hw__peek(last + 1, &word)); /* not aligned */
    T_TRUE(!hw__peek(0, &word));
    T_TRUE(!hw__peek(UINTPTR_MAX - 7, &word));
    T_TRUE(word == NOTHING);
    T_TRUE(!hw__peek_is(last + sizeof last, 0));
    T_TRUE(!hw__peek_is(last + 4, stored >> 32)); /* its second half cannot be read */
}

static void test_words(void) {
    check_words(end_of_memory(-1));
    check_words(end_of_memory(PROT_NONE));
}

static void test_memory_that_was_never_touched_is_read(void) {
    uintptr_t word = NOTHING;
    uintptr_t untouched = (uintptr_t)end_of_memory(PROT_NONE) - 64;

    T_TRUE(hw__peek_is(untouched, 0));
    T_TRUE(hw__peek(untouched, &word));
    T_TRUE(word == 0);
}

/* At each alignment, with and without room for the NUL, before memory that cannot be read. */
static void test_texts(void) {
    char *end = end_of_memory(PROT_NONE), to[8];
    for (size_t length = 0; length < 20; length++) {
        char *text = end - length - 1;
        memset(text, 'x', length);
        text[length] = '\0';
        for (size_t cut = 0; cut < 2; cut++) {
            char *start = text + cut; /* with cut, the text ends with the memory and has no NUL */
            memmove(start, text, length + 1 - cut);
            memset(to, '?', sizeof to);
            hw__peek_text((uintptr_t)start, to, sizeof to);
            size_t told = length < sizeof to - 1 ? length : sizeof to - 1;
            T_EQ(told, strlen(to));
            T_EQ(told, strspn(to, "x"));
        }
    }
    to[0] = '?';
    hw__peek_text((uintptr_t)end, to, sizeof to);
    T_EQ('\0', to[0]);
    to[0] = '?';
    hw__peek_text((uintptr_t)end - 8, to, 1);
    T_EQ('\0', to[0]);
}

int main(void) {
    t_start();
    T_RUN(test_words);
    T_RUN(test_memory_that_was_never_touched_is_read);
    T_RUN(test_texts);
    return 0;
}
