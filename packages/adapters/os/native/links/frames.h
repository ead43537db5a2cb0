// SPDX-License-Identifier: Apache-2.0
// Frames of our own, and where they are seen.
#pragma once
#include <napi.h>

void registerFrames(Napi::Env env, Napi::Object exports);
