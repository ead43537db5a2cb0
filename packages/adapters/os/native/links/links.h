// SPDX-License-Identifier: Apache-2.0
// Reports changes of links in network namespaces.
#pragma once
#include <napi.h>

void registerLinks(Napi::Env env, Napi::Object exports);
