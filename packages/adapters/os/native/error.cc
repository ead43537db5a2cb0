// SPDX-License-Identifier: Apache-2.0
// Converts failed system calls to JavaScript errors.
#include "error.h"

#include <cstring>
#include <string>

Napi::Error systemError(Napi::Env env, const char *call, int number) {
  const char *name = strerrorname_np(number);
  const std::string code = name == nullptr ? std::to_string(number) : name;
  Napi::Error error = Napi::Error::New(env, code + ": " + strerror(number) + ", " + call);
  error.Set("code", Napi::String::New(env, code));
  error.Set("errno", Napi::Number::New(env, -number));
  error.Set("syscall", Napi::String::New(env, call));
  return error;
}

int intArgument(const Napi::CallbackInfo &info, size_t index) {
  if (info.Length() <= index || !info[index].IsNumber()) {
    throw Napi::TypeError::New(info.Env(), "argument " + std::to_string(index) + " must be a number");
  }
  return info[index].As<Napi::Number>().Int32Value();
}
