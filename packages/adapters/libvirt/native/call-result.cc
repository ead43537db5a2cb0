// SPDX-License-Identifier: Apache-2.0
// What one call to libvirt gave.
#include "call-result.h"

#include <libvirt/virterror.h>

#include <cstring>

LibvirtError lastError() {
  const virErrorPtr error = virGetLastError();  // owned by libvirt
  if (error == nullptr) return {VIR_ERR_INTERNAL_ERROR, VIR_FROM_NONE, VIR_ERR_ERROR, "libvirt gave no reason"};
  return {error->code, error->domain, error->level, textOf(error->message, kErrorBytesMax)};
}

std::string textOf(const char *text, size_t bytesMax) {
  return text == nullptr ? std::string() : std::string(text, strnlen(text, bytesMax));
}

CallResult outcomeOf(int result) {
  if (result < 0) return {lastError(), {}};
  return {};
}
