// SPDX-License-Identifier: Apache-2.0
// Counters of the links of network namespaces.
#pragma once
#include <napi.h>

void registerCounters(Napi::Env env, Napi::Object exports);
