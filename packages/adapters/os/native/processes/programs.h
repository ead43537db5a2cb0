// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <napi.h>

void registerPrograms(Napi::Env env, Napi::Object exports);
