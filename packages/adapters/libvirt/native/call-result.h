// SPDX-License-Identifier: Apache-2.0
// Results of libvirt calls: plain values that may cross threads.
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

// A NIC as the guest agent reports it.
struct GuestInterface {
  std::string name;
  std::string mac;  // empty when the guest has none for it
  std::vector<std::string> addresses;  // as the guest wrote them, without a prefix
};

// Facts of the guest agent on one topic, or of libvirt on a job: names, such as os.id or data_total, and texts.
using Facts = std::vector<std::pair<std::string, std::string>>;

using Value = std::variant<std::monostate, std::string, DomainFacts, std::vector<GuestInterface>, Facts>;

struct CallResult {
  std::optional<LibvirtError> error;
  Value value;
};

// One call; runs on the connection's thread, the only one that uses that connection.
using Job = std::function<CallResult(virConnectPtr)>;

// Limit of an error's text, bytes; a daemon may send 4 MB.
constexpr size_t kErrorBytesMax = 1000;

// A truncated text from the daemon or the guest; empty if it is null.
std::string textOf(const char *text, size_t bytesMax);

// A decimal integer; empty for other types.
std::string numberOf(const virTypedParameter &item);

// The error of the last call. libvirt stores it per thread, so read it on the calling thread, immediately.
LibvirtError lastError();

// The result of a call that returned `result`, negative on failure.
CallResult outcomeOf(int result);
