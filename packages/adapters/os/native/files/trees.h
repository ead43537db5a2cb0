// SPDX-License-Identifier: Apache-2.0
// Removes directory trees that tenants control.
#pragma once
#include <napi.h>

void registerTrees(Napi::Env env, Napi::Object exports);
