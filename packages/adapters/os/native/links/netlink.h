// SPDX-License-Identifier: Apache-2.0
// Questions to the kernel over netlink, in network namespaces.
#pragma once
#include <napi.h>

void registerNetlink(Napi::Env env, Napi::Object exports);
