// SPDX-License-Identifier: MIT
#ifndef HEADWAY_VERSION_H
#define HEADWAY_VERSION_H

#include "headway/api.h"

/* The version of the public interface. Must be increased by one whenever a public struct, constant
 * or prototype changes its meaning or layout, so that a caller bound through ctypes can refuse a
 * library that it was not written for. */
#define HW_ABI_VERSION 23

/* Returns the HW_ABI_VERSION that this library was built with. This function can't fail. */
HW_API int hw_abi_version(void);

#endif
