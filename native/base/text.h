// SPDX-License-Identifier: MIT
/* Builds a line of text without stdio: in a hook, or after a fork. */
#ifndef HEADWAY_BASE_TEXT_H
#define HEADWAY_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The expansion of a macro, as a string literal. */
#define HW__TEXT_OF(macro) HW__TEXT_OF_TOKEN(macro)
#define HW__TEXT_OF_TOKEN(token) #token

/* Appends `more` to a text that ends with NUL, in a buffer of `room` bytes. The part that does not
 * fit is cut off. Async-signal-safe. */
void hw__text_append(char *text, size_t room, const char *more);

/* Appends a number, 0 or more, in decimal, as hw__text_append() does. */
void hw__text_append_number(char *text, size_t room, int64_t number);

#endif
