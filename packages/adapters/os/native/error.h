// SPDX-License-Identifier: Apache-2.0
// How a failed system call becomes a JavaScript error: like those of node:fs, with `code`, `errno` and `syscall`.
#pragma once
#include <napi.h>

// The error of `call` for the errno value `number`.
Napi::Error systemError(Napi::Env env, const char *call, int number);

// Descriptors and process ids come from our own TypeScript; anything else is a bug there.
int intArgument(const Napi::CallbackInfo &info, size_t index);
