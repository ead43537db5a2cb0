// SPDX-License-Identifier: Apache-2.0
// Removal of trees that someone else made.
#pragma once
#include <napi.h>

void registerTrees(Napi::Env env, Napi::Object exports);
