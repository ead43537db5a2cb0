// SPDX-License-Identifier: Apache-2.0
// Drops all privileges of a root process, in all of its threads.
#pragma once
#include <napi.h>

void registerPrivileges(Napi::Env env, Napi::Object exports);
