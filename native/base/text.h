// SPDX-License-Identifier: MIT
/* Puts a line of text together without stdio: in a hook, or after a fork. */
#ifndef HEADWAY_BASE_TEXT_H
#define HEADWAY_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* What a macro stands for, as a string. */
#define HW__TEXT_OF(macro) HW__TEXT_OF_TOKEN(macro)
#define HW__TEXT_OF_TOKEN(token) #token

/* Adds to a text that ends with NUL, in `room` bytes; what does not fit is left out.
 * Async-signal-safe. */
void hw__text_append(char *text, size_t room, const char *more);

/* The same with a number, 0 or more, in decimal. */
void hw__text_append_number(char *text, size_t room, int64_t number);

#endif
