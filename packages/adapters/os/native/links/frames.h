// SPDX-License-Identifier: Apache-2.0
// Sends test frames, and captures frames on several links.
#pragma once
#include <napi.h>

void registerFrames(Napi::Env env, Napi::Object exports);
