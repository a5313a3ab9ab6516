// SPDX-License-Identifier: MIT
#include "headway/version.h"

int hw_abi_version(void) { return HW_ABI_VERSION; }
