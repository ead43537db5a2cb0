// SPDX-License-Identifier: Apache-2.0
// Processes that are not children: when they end.
#pragma once
#include <napi.h>

void registerProcesses(Napi::Env env, Napi::Object exports);
