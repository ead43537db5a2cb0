// SPDX-License-Identifier: Apache-2.0
// What one call to libvirt gave; plain values that may cross threads.
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
  bool hasDiskError;  // it is paused for that
  std::string move;   // "left" or "leaving"; empty otherwise
};

// A NIC as the guest's agent tells it.
struct GuestInterface {
  std::string name;
  std::string mac;  // empty when the guest has none for it
  std::vector<std::string> addresses;  // as the guest wrote them, without a prefix
};

// What the guest's agent tells of one topic, or libvirt of a job: its names, such as os.id or data_total, and texts.
using Facts = std::vector<std::pair<std::string, std::string>>;

using Value = std::variant<std::monostate, std::string, DomainFacts, std::vector<GuestInterface>, Facts>;

struct CallResult {
  std::optional<LibvirtError> error;
  Value value;
};

// One call; runs on the connection's thread, which is the only one that calls libvirt with that connection.
using Job = std::function<CallResult(virConnectPtr)>;

// Bytes of an error's text that are handed on; a daemon may send 4 MB of it.
constexpr size_t kErrorBytesMax = 1000;

// A text of the daemon's or the guest's, cut; empty for none.
std::string textOf(const char *text, size_t bytesMax);

// A whole number, in decimals; empty for anything else.
std::string numberOf(const virTypedParameter &item);

// The error of the last call. libvirt keeps it for each thread: to be read on the thread of the call, at once.
LibvirtError lastError();

// The outcome of a call that gave `result`, negative when it failed.
CallResult outcomeOf(int result);
