/* SPDX-License-Identifier: MIT
 *
 * native/gil/gil.c: the records of GILs that come and go. A hook finds the record by the address of
 * its GIL (hw__gil_find()), and is then not known to anybody until it has marked itself as busy
 * there (hw__gil_enter()). A session that ends empties the records (hw__gil_remove()), since
 * nobody will tell of the end of those GILs. If the record is another GIL's when the hook enters,
 * two hooks are busy in it, each with a mutex of its own.
 *
 * life() is an interpreter with a GIL of its own at an address: its hooks (look_and_signal()), its
 * end without a word, and perhaps another one that is born there. session() starts and stops.
 * Records: one for each address that there ever was, or FEW: one less.
 *
 * Checked: who is in a record is its GIL's, and alone in it. */
#define GILS 2 /* addresses, from 1 on */
#ifdef FEW
#define RECORDS 1
#else
#define RECORDS 2
#endif
#define NONE 0

byte memory[RECORDS]; /* of hw__gil; NONE: free */
byte former[RECORDS]; /* whose it was last */
bool recorded[RECORDS], busy[RECORDS];
byte inside[RECORDS]; /* hooks; not in the code */
bool on, registry; /* a session is; its lock */

inline claim(slot, whose, got) {
    memory[slot] = whose;
    former[slot] = whose;
    recorded[slot] = on;
    got = slot
}

/* hw__gil_add(), with the registry's lock: the record that this address had, one that no GIL ever
 * had, or any that is free. */
inline gil_add(address, found) {
    d_step {
        found = RECORDS;
#ifndef MUTATION_ANY_RECORD /* as it was: the first that is free */
        for (i_ : 0 .. RECORDS - 1) {
            if
            :: found == RECORDS && memory[i_] == NONE && former[i_] == address -> claim(i_, address, found)
            :: else
            fi
        }
        for (i_ : 0 .. RECORDS - 1) {
            if
            :: found == RECORDS && memory[i_] == NONE && former[i_] == NONE -> claim(i_, address, found)
            :: else
            fi
        }
#endif
        for (i_ : 0 .. RECORDS - 1) {
            if
            :: found == RECORDS && memory[i_] == NONE -> claim(i_, address, found)
            :: else
            fi
        }
        skip
    }
}
hidden byte i_;

inline gil_find(address, found) {
    d_step {
        found = RECORDS;
        for (i_ : 0 .. RECORDS - 1) { if :: memory[i_] == address -> found = i_ :: else fi }
        skip
    }
}

inline hook(address) {
    gil_find(address, at);
    if
    :: atomic { at == RECORDS && !registry -> gil_add(address, at) } /* hw__on_new_gil() tries the lock */
    :: else
    fi;
    if
    :: at < RECORDS && recorded[at] ->
        busy[at] = true;
        if
        :: recorded[at] ->
            inside[at]++;
            assert(inside[at] == 1 && memory[at] == address);
            inside[at]--
        :: else
        fi;
        busy[at] = false
    :: else
    fi
}

proctype life(byte address) {
    byte at, hooks = 4;
    do
    :: hooks > 0 -> hooks--; hook(address); at = 0 /* the same GIL, or one that was born here */
    :: break
    od
}

proctype session() {
    byte i, times = 2;
    do
    :: times > 0 ->
        times--;
        registry = true;
        on = true;
        for (i : 0 .. RECORDS - 1) { recorded[i] = memory[i] != NONE }
        registry = false;
        registry = true;
        for (i : 0 .. RECORDS - 1) {
            if
            :: memory[i] != NONE ->
                recorded[i] = false;
                !busy[i];
                memory[i] = NONE
            :: else
            fi
        }
        on = false;
        registry = false
    :: else -> break
    od
}

init { atomic { run life(1); run life(2); run session() } }
