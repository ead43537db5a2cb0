// SPDX-License-Identifier: Apache-2.0
// Unix sockets: who listens, and descriptors that travel.
#pragma once
#include <napi.h>

void registerSockets(Napi::Env env, Napi::Object exports);
