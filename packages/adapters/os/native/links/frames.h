// SPDX-License-Identifier: Apache-2.0
// Sends test frames, captures frames on several links, and watches frames of single links.
#pragma once
#include <napi.h>

void registerFrames(Napi::Env env, Napi::Object exports);
