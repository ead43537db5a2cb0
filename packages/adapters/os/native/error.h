// SPDX-License-Identifier: Apache-2.0
// Converts failed system calls to JavaScript errors with `code`, `errno` and `syscall`, like those of node:fs.
#pragma once
#include <napi.h>

// Returns an error that `call` failed with the errno value `number`.
Napi::Error systemError(Napi::Env env, const char *call, int number);

// Returns an integer argument, such as a descriptor or a pid. Throws a TypeError for other types, which only a bug passes.
int intArgument(const Napi::CallbackInfo &info, size_t index);
