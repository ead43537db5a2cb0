// SPDX-License-Identifier: Apache-2.0
// Opens paths that tenants control, locks files, and keeps descriptors from child processes.
#pragma once
#include <napi.h>

void registerFiles(Napi::Env env, Napi::Object exports);
