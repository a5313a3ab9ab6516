// SPDX-License-Identifier: MIT
/* What is not always called from code that is often run stays out of it, where it would only be in
 * the way of fetching the rest: HW__APART; and what is seldom called besides: HW__RARE. */
#ifndef HEADWAY_BASE_RARE_H
#define HEADWAY_BASE_RARE_H

#define HW__APART __attribute__((noinline))
#define HW__RARE __attribute__((noinline, cold))

#endif
