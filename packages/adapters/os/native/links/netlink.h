// SPDX-License-Identifier: Apache-2.0
// Netlink requests, settings, taps and frames in network namespaces.
#pragma once
#include <napi.h>

void registerNetlink(Napi::Env env, Napi::Object exports);
