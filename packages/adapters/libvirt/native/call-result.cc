// SPDX-License-Identifier: Apache-2.0
// Results of libvirt calls.
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

std::string numberOf(const virTypedParameter &item) {
  switch (item.type) {
    case VIR_TYPED_PARAM_INT:
      return std::to_string(item.value.i);
    case VIR_TYPED_PARAM_UINT:
      return std::to_string(item.value.ui);
    case VIR_TYPED_PARAM_LLONG:
      return std::to_string(item.value.l);
    case VIR_TYPED_PARAM_ULLONG:
      return std::to_string(item.value.ul);
    default:
      return {};
  }
}

CallResult outcomeOf(int result) {
  if (result < 0) return {lastError(), {}};
  return {};
}
