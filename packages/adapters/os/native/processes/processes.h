// SPDX-License-Identifier: Apache-2.0
// Reports the end of processes that are not children of this process.
#pragma once
#include <napi.h>

void registerProcesses(Napi::Env env, Napi::Object exports);
