// SPDX-License-Identifier: MIT
#include "base/text.h"

#include <string.h>

void hw__text_append(char *text, size_t room, const char *more) {
    size_t length = strlen(text);
    while (*more != '\0' && length + 1 < room) {
        text[length++] = *more++;
    }
    text[length] = '\0';
}

void hw__text_append_number(char *text, size_t room, int64_t number) {
    char digits[24] = "";
    int i = (int)sizeof digits - 1;
    do {
        digits[--i] = (char)('0' + number % 10);
    } while ((number /= 10) > 0);
    hw__text_append(text, room, digits + i);
}
