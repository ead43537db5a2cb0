// SPDX-License-Identifier: Apache-2.0
// A call on one domain, whose name is the first argument.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "call-result.h"

using Arguments = std::vector<std::string>;

struct DomainOperation {
  // Number of arguments; with `more`, the minimum.
  size_t arguments;
  std::function<CallResult(virDomainPtr, const Arguments &)> call;
  bool more = false;
};

using DomainOperations = std::map<std::string, DomainOperation>;

// Returns the operations of migrations.
const DomainOperations &migrationOperations();
