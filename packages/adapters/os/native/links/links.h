// SPDX-License-Identifier: Apache-2.0
// Links of network namespaces: when they change.
#pragma once
#include <napi.h>

void registerLinks(Napi::Env env, Napi::Object exports);
