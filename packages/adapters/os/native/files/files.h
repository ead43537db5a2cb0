// SPDX-License-Identifier: Apache-2.0
// Opening a path that someone else controls.
#pragma once
#include <napi.h>

void registerFiles(Napi::Env env, Napi::Object exports);
