// SPDX-License-Identifier: MIT
#ifndef HEADWAY_VERSION_H
#define HEADWAY_VERSION_H

#include "headway/api.h"

/* Grows by one whenever a public struct, constant or prototype changes its meaning or layout, so
 * that a caller bound through ctypes can refuse a library it was not written for. */
#define HW_ABI_VERSION 11

/* Tells which interface this library was built with.
 *
 * Returns HW_ABI_VERSION. This function can't fail. */
HW_API int hw_abi_version(void);

#endif
