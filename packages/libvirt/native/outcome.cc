// SPDX-License-Identifier: Apache-2.0
// What one call to libvirt gave.
#include "outcome.h"

#include <libvirt/virterror.h>

LibvirtError lastError() {
  const virErrorPtr error = virGetLastError();  // owned by libvirt
  if (error == nullptr) return {VIR_ERR_INTERNAL_ERROR, VIR_FROM_NONE, VIR_ERR_ERROR, "libvirt gave no reason"};
  return {error->code, error->domain, error->level, error->message == nullptr ? "" : error->message};
}

Outcome outcomeOf(int result) {
  if (result < 0) return {lastError(), {}};
  return {};
}
