// SPDX-License-Identifier: MIT
/* Keeps functions out of the code that calls them. Code that is often run is fetched faster without
 * the parts that it does not always need. HW__APART: a function that is not always called.
 * HW__RARE: a function that is, besides, seldom called. */
#ifndef HEADWAY_BASE_RARE_H
#define HEADWAY_BASE_RARE_H

#define HW__APART __attribute__((noinline))
#define HW__RARE __attribute__((noinline, cold))

#endif
