/* SPDX-License-Identifier: MIT
 *
 * native/gil/gil.c: the records of GILs that come and go. A hook finds the record by the address of its GIL
 * (hw__gil_find()). No other thread knows of the hook until it has marked itself as busy in the record
 * (hw__gil_enter()). A session that ends empties the records (hw__gil_remove()), because it would not learn
 * that their GILs end. If the record belongs to another GIL when the hook enters it, two hooks are busy in
 * it, each with a mutex of its own.
 *
 * life() is an interpreter with a GIL of its own at an address: its hooks (look_and_signal()), its end,
 * which is not reported, and possibly another interpreter that is born there. session() starts and stops.
 * There is one record for each address that ever had a GIL. FEW: there is one record less. RETIRE: so it is,
 * and where no record is free, a new GIL takes that of another one, which may be there still (retire_idle() in
 * trace/events.c). A hook that stands still then must find that the record is another GIL's. A record that had
 * an event less than half a second ago is not taken: no hook is in it. The session neither begins nor ends.
 *
 * Checked: a hook in a record belongs to that record's GIL, and is alone in it. */
#define GILS 2 /* addresses, from 1 on */
#if defined(FEW) || defined(RETIRE)
#define RECORDS 1
#else
#define RECORDS 2
#endif
#define NONE 0

byte memory[RECORDS]; /* the address of hw__gil; NONE: the record is free */
byte former[RECORDS]; /* the last address that the record had */
bool recorded[RECORDS], busy[RECORDS];
byte inside[RECORDS]; /* hooks in the record; not in the code */
bool on, registry; /* there is a session; the registry's lock is taken */

inline claim(slot, whose, got) {
    memory[slot] = whose;
    former[slot] = whose;
    recorded[slot] = on;
    got = slot
}

/* hw__gil_add(), with the registry's lock. Takes the record that this address had, else one that no GIL
 * ever had, else any that is free. */
inline gil_add(address, found) {
    d_step {
        found = RECORDS;
#ifndef MUTATION_ANY_RECORD /* an earlier version took the first that is free */
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

/* retire_idle(): waits for the hook that is busy, and the record is free. */
inline retire() {
    atomic { inside[0] == 0; recorded[0] = false };
    !busy[0];
    memory[0] = NONE
}

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
#ifdef RETIRE
       if
       :: atomic { at == RECORDS && !registry -> registry = true };
          retire();
          atomic { gil_add(address, at); registry = false }
       :: else
       fi
#endif
    :: else
    fi;
    if
#ifdef MUTATION_ADDRESS_UNSEEN
    :: at < RECORDS && recorded[at] ->
#else
    :: atomic { at < RECORDS && recorded[at] && memory[at] == address } ->
#endif
        busy[at] = true;
        if
#ifdef MUTATION_ADDRESS_UNSEEN
        :: atomic { recorded[at] -> inside[at]++ };
#else
        :: atomic { recorded[at] && memory[at] == address -> inside[at]++ };
#endif
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
    :: hooks > 0 -> hooks--; hook(address); at = 0 /* of the same GIL, or of one that was born here */
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

init {
    atomic {
        run life(1);
        run life(2);
#ifdef RETIRE
        on = true
#else
        run session()
#endif
    }
}
