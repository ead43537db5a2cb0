// SPDX-License-Identifier: Apache-2.0
// Reads the counters of all links in a network namespace.
#pragma once
#include <napi.h>

void registerCounters(Napi::Env env, Napi::Object exports);
