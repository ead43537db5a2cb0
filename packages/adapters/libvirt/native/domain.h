// SPDX-License-Identifier: Apache-2.0
// The calls of the hypervisor port, each as a job for a connection's thread.
#pragma once
#include <string>
#include <vector>

#include "call-result.h"

// Maximum bytes of domain XML; a domain with all ports and NICs has under 200 000.
constexpr size_t kXmlBytesMax = 256 * 1024;

// Returns the job for an operation. Returns no job if no operation has that name and number of arguments.
std::optional<Job> jobFor(const std::string &operation, const std::vector<std::string> &arguments);
