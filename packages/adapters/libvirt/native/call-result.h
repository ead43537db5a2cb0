// SPDX-License-Identifier: Apache-2.0
// Results of libvirt calls: plain values that may be passed between threads.
#pragma once
#include <libvirt/libvirt.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

struct LibvirtError {
  int number;  // virErrorNumber
  int domain;  // virErrorDomain
  int level;   // virErrorLevel
  std::string message;
};

struct DomainFacts {
  std::string name;
  std::string uuid;
  std::string state;
  bool persistent;
  bool hasDiskError;  // whether the domain is paused because of a disk error
  std::string move;   // "left" or "leaving"; empty otherwise
};

// A NIC as the guest agent reports it.
struct GuestInterface {
  std::string name;
  std::string mac;  // empty if the agent reports none
  std::vector<std::string> addresses;  // as the agent reports them, without prefix lengths
};

// Named values, such as os.id from the guest agent, or data_total of a libvirt job.
using Facts = std::vector<std::pair<std::string, std::string>>;

using Value = std::variant<std::monostate, std::string, DomainFacts, std::vector<GuestInterface>, Facts>;

struct CallResult {
  std::optional<LibvirtError> error;
  Value value;
};

// A libvirt call. Runs on the connection's thread, because no other thread may use the connection.
using Job = std::function<CallResult(virConnectPtr)>;

// Maximum length of an error's text in bytes; a daemon may send 4 MB.
constexpr size_t kErrorBytesMax = 1000;

// Returns the first `bytesMax` bytes of a text from the daemon or the guest. Returns an empty string for null.
std::string textOf(const char *text, size_t bytesMax);

// Returns an integer in decimal; empty for other types.
std::string numberOf(const virTypedParameter &item);

// Returns the error of the last call. libvirt stores it per thread, so call this immediately, on the calling thread.
LibvirtError lastError();

// Returns the result of a call that returned `result`, which is negative on failure.
CallResult outcomeOf(int result);
