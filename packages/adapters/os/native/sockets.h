// SPDX-License-Identifier: Apache-2.0
// Identifies the listeners of Unix sockets, and passes descriptors between processes.
#pragma once
#include <napi.h>

void registerSockets(Napi::Env env, Napi::Object exports);
