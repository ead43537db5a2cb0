// SPDX-License-Identifier: Apache-2.0
// Programs that are started here.
#pragma once
#include <napi.h>

void registerPrograms(Napi::Env env, Napi::Object exports);
