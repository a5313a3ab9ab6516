// SPDX-License-Identifier: MIT
#ifndef HEADWAY_API_H
#define HEADWAY_API_H

/* Marks what libheadway.so exports. Everything else is hidden (-fvisibility=hidden). */
#define HW_API __attribute__((visibility("default")))

#endif
