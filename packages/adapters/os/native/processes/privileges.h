// SPDX-License-Identifier: Apache-2.0
// Giving up everything that a root process has.
#pragma once
#include <napi.h>

void registerPrivileges(Napi::Env env, Napi::Object exports);
