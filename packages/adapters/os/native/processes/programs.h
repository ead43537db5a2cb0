// SPDX-License-Identifier: Apache-2.0
// Starts programs without blocking the JavaScript thread.
#pragma once
#include <napi.h>

void registerPrograms(Napi::Env env, Napi::Object exports);
