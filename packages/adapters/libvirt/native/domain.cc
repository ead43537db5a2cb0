// SPDX-License-Identifier: Apache-2.0
// The calls of the hypervisor port. Each call looks up the domain by name, so that no virDomainPtr outlives a call.
#include "domain.h"

#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "operation.h"

namespace {

// Timeout of the guest agent in seconds. It is short, because other calls of the connection wait meanwhile.
constexpr int kAgentSeconds = 2;
// Maximum number of interfaces per guest, because an agent may report any number.
constexpr int kGuestInterfacesMax = 256;
// Maximum number of facts per guest: libvirt has ten about the system and some per file system and user.
constexpr int kGuestInfoMax = 1024;
// Maximum bytes of an interface's name and MAC. Names have at most 15 bytes on Linux, and up to 256 on Windows.
constexpr size_t kGuestNameBytesMax = 256;
constexpr size_t kMacBytesMax = 32;
// Maximum number of addresses per interface and in total, and of bytes of an address; IPv6 has at most 45.
constexpr size_t kAddressesMax = 32;
constexpr size_t kAllAddressesMax = 1024;
constexpr size_t kAddressBytesMax = 64;
// Maximum bytes of an agent's description; 60 commands take 4 kB. Truncated text is invalid JSON and is dropped.
constexpr size_t kAgentBytesMax = 64 * 1024;

struct FreeDomain {
  void operator()(virDomainPtr domain) const { virDomainFree(domain); }
};
using OwnedDomain = std::unique_ptr<virDomain, FreeDomain>;

const char *stateName(int state) {
  switch (static_cast<virDomainState>(state)) {
    case VIR_DOMAIN_RUNNING:
      return "running";
    case VIR_DOMAIN_BLOCKED:
      return "blocked";
    case VIR_DOMAIN_PAUSED:
      return "paused";
    case VIR_DOMAIN_SHUTDOWN:
      return "shutdown";
    case VIR_DOMAIN_SHUTOFF:
      return "shutoff";
    case VIR_DOMAIN_CRASHED:
      return "crashed";
    case VIR_DOMAIN_PMSUSPENDED:
      return "suspended";
    default:
      return "unknown";
  }
}

// Returns `left` or `leaving` if a migration has caused the domain's state; otherwise an empty string.
const char *moveName(int state, int reason) {
  if (state == VIR_DOMAIN_SHUTOFF && reason == VIR_DOMAIN_SHUTOFF_MIGRATED) return "left";
  if (state == VIR_DOMAIN_PAUSED && reason == VIR_DOMAIN_PAUSED_MIGRATION) return "leaving";
  return "";
}

// Converts the target "live", "config" or "both" to libvirt's flags.
unsigned int affectFlags(const std::string &target) {
  if (target == "both") return VIR_DOMAIN_AFFECT_LIVE | VIR_DOMAIN_AFFECT_CONFIG;
  return target == "live" ? VIR_DOMAIN_AFFECT_LIVE : VIR_DOMAIN_AFFECT_CONFIG;
}

CallResult findDomain(virConnectPtr connection, const Arguments &arguments) {
  const OwnedDomain domain(virDomainLookupByName(connection, arguments[0].c_str()));
  if (domain == nullptr) {
    const LibvirtError error = lastError();
    if (error.number == VIR_ERR_NO_DOMAIN) return {};
    return {error, {}};
  }
  int state = 0;
  int reason = 0;
  char uuid[VIR_UUID_STRING_BUFLEN] = {};
  if (virDomainGetState(domain.get(), &state, &reason, 0) < 0) return outcomeOf(-1);
  if (virDomainGetUUIDString(domain.get(), uuid) < 0) return outcomeOf(-1);
  const int persistent = virDomainIsPersistent(domain.get());
  if (persistent < 0) return outcomeOf(-1);
  // If QEMU died, or libvirt ended a domain that it could not reconnect to, the state is shutoff with this reason. libvirt's
  // state "crashed" means a guest that is preserved for inspection.
  const bool died =
      state == VIR_DOMAIN_SHUTOFF && (reason == VIR_DOMAIN_SHUTOFF_CRASHED || reason == VIR_DOMAIN_SHUTOFF_DAEMON);
  const bool hasDiskError = state == VIR_DOMAIN_PAUSED && reason == VIR_DOMAIN_PAUSED_IOERROR;
  return {{},
          DomainFacts{arguments[0], uuid, died ? "crashed" : stateName(state), persistent == 1, hasDiskError,
                      moveName(state, reason)}};
}

CallResult defineDomain(virConnectPtr connection, const Arguments &arguments) {
  const OwnedDomain domain(virDomainDefineXMLFlags(connection, arguments[0].c_str(), 0));
  return outcomeOf(domain == nullptr ? -1 : 0);
}

// Reads the "live" or "config" XML, or with "moving" the XML for the daemon of a migration's target.
CallResult readXml(virDomainPtr domain, const Arguments &arguments) {
  const unsigned int flags = arguments[1] == "config"   ? VIR_DOMAIN_XML_INACTIVE
                             : arguments[1] == "moving" ? VIR_DOMAIN_XML_MIGRATABLE
                                                        : 0;
  const std::unique_ptr<char, decltype(&free)> xml(virDomainGetXMLDesc(domain, flags), free);
  if (xml == nullptr) return outcomeOf(-1);
  const size_t length = strnlen(xml.get(), kXmlBytesMax + 1);
  if (length > kXmlBytesMax) {
    return {LibvirtError{VIR_ERR_XML_ERROR, VIR_FROM_NONE, VIR_ERR_ERROR, "the domain XML is too long"}, {}};
  }
  return {{}, std::string(xml.get(), length)};
}

// Returns success if the domain is already in the wanted state, because calls may be repeated. Reads the state, because
// drivers return different error numbers.
CallResult ignoreIfActive(bool active, virDomainPtr domain, int result) {
  if (result >= 0) return {};
  const LibvirtError error = lastError();
  if (virDomainIsActive(domain) == (active ? 1 : 0)) return {};
  return {error, {}};
}

// Starts the domain "paused" or "running".
CallResult startDomain(virDomainPtr domain, const Arguments &arguments) {
  const unsigned int flags = arguments[1] == "paused" ? VIR_DOMAIN_START_PAUSED : 0;
  return ignoreIfActive(true, domain, virDomainCreateWithFlags(domain, flags));
}

CallResult shutdownDomain(virDomainPtr domain, const Arguments &) {
  return ignoreIfActive(false, domain, virDomainShutdown(domain));
}

CallResult destroyDomain(virDomainPtr domain, const Arguments &) {
  return ignoreIfActive(false, domain, virDomainDestroy(domain));
}

// Returns success if the vCPUs of an active domain are already paused or running, as wanted.
CallResult ignoreIfInState(virDomainState wanted, virDomainPtr domain, int result) {
  if (result >= 0) return {};
  const LibvirtError error = lastError();
  int state = 0;
  if (virDomainGetState(domain, &state, nullptr, 0) == 0 && state == wanted) return {};
  return {error, {}};
}

CallResult suspendDomain(virDomainPtr domain, const Arguments &) {
  return ignoreIfInState(VIR_DOMAIN_PAUSED, domain, virDomainSuspend(domain));
}

CallResult resumeDomain(virDomainPtr domain, const Arguments &) {
  return ignoreIfInState(VIR_DOMAIN_RUNNING, domain, virDomainResume(domain));
}

// Reboots through the guest agent if it is connected, otherwise with the power button.
CallResult rebootDomain(virDomainPtr domain, const Arguments &) { return outcomeOf(virDomainReboot(domain, 0)); }

CallResult resetDomain(virDomainPtr domain, const Arguments &) { return outcomeOf(virDomainReset(domain, 0)); }

CallResult attachDevice(virDomainPtr domain, const Arguments &arguments) {
  return outcomeOf(virDomainAttachDeviceFlags(domain, arguments[1].c_str(), affectFlags(arguments[2])));
}

CallResult detachDevice(virDomainPtr domain, const Arguments &arguments) {
  return outcomeOf(virDomainDetachDeviceAlias(domain, arguments[1].c_str(), affectFlags(arguments[2])));
}

CallResult updateDevice(virDomainPtr domain, const Arguments &arguments) {
  return outcomeOf(virDomainUpdateDeviceFlags(domain, arguments[1].c_str(), affectFlags(arguments[2])));
}

struct GuestInterfaces {
  virDomainInterfacePtr *items = nullptr;
  int count = 0;
  GuestInterfaces() = default;
  GuestInterfaces(const GuestInterfaces &) = delete;
  GuestInterfaces &operator=(const GuestInterfaces &) = delete;
  ~GuestInterfaces() {
    for (int index = 0; index < count; index++) virDomainInterfaceFree(items[index]);
    free(items);
  }
};

std::vector<std::string> addressesOf(const virDomainInterface &item, size_t addressesMax) {
  std::vector<std::string> addresses;
  const size_t count = std::min<size_t>(item.naddrs, addressesMax);
  for (size_t index = 0; index < count; index++) {
    addresses.push_back(textOf(item.addrs[index].addr, kAddressBytesMax));
  }
  return addresses;
}

// Reads interfaces from the agent, which is untrusted. This function limits the length, and the caller validates the content.
CallResult readGuestInterfaces(virDomainPtr domain, const Arguments &) {
  if (virDomainAgentSetResponseTimeout(domain, kAgentSeconds, 0) < 0) return outcomeOf(-1);
  GuestInterfaces found;
  const int count = virDomainInterfaceAddresses(domain, &found.items, VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, 0);
  if (count < 0) return outcomeOf(-1);
  found.count = count;
  std::vector<GuestInterface> interfaces;
  size_t left = kAllAddressesMax;
  for (int index = 0; index < std::min(count, kGuestInterfacesMax); index++) {
    const virDomainInterfacePtr item = found.items[index];
    std::vector<std::string> addresses = addressesOf(*item, std::min(left, kAddressesMax));
    left -= addresses.size();
    interfaces.push_back(
        {textOf(item->name, kGuestNameBytesMax), textOf(item->hwaddr, kMacBytesMax), std::move(addresses)});
  }
  return {{}, std::move(interfaces)};
}

struct GuestInfo {
  virTypedParameterPtr items = nullptr;
  int count = 0;
  GuestInfo() = default;
  GuestInfo(const GuestInfo &) = delete;
  GuestInfo &operator=(const GuestInfo &) = delete;
  ~GuestInfo() { virTypedParamsFree(items, count); }
};

std::string valueOf(const virTypedParameter &item) {
  return item.type == VIR_TYPED_PARAM_STRING ? textOf(item.value.s, kGuestNameBytesMax) : numberOf(item);
}

const std::map<std::string, unsigned int> kGuestTopics = {
    {"system", VIR_DOMAIN_GUEST_INFO_OS},
    {"hostname", VIR_DOMAIN_GUEST_INFO_HOSTNAME},
    {"timezone", VIR_DOMAIN_GUEST_INFO_TIMEZONE},
    {"users", VIR_DOMAIN_GUEST_INFO_USERS},
    {"filesystems", VIR_DOMAIN_GUEST_INFO_FILESYSTEM},
};

// Reads facts, whose number and length are limited because the agent is untrusted.
CallResult readGuestInfo(virDomainPtr domain, const Arguments &arguments) {
  const auto topic = kGuestTopics.find(arguments[1]);
  if (topic == kGuestTopics.end()) {
    return {LibvirtError{VIR_ERR_INVALID_ARG, VIR_FROM_NONE, VIR_ERR_ERROR, "no such topic"}, {}};
  }
  if (virDomainAgentSetResponseTimeout(domain, kAgentSeconds, 0) < 0) return outcomeOf(-1);
  GuestInfo found;
  if (virDomainGetGuestInfo(domain, topic->second, &found.items, &found.count, 0) < 0) return outcomeOf(-1);
  Facts facts;
  for (int index = 0; index < std::min(found.count, kGuestInfoMax); index++) {
    const virTypedParameter &item = found.items[index];
    facts.emplace_back(textOf(item.field, VIR_TYPED_PARAM_FIELD_LENGTH), valueOf(item));
  }
  return {{}, std::move(facts)};
}

// Agent commands without a libvirt function. Source: QEMU guest agent protocol.
const std::map<std::string, const char *> kAgentCommands = {
    {"agent", "{\"execute\":\"guest-info\"}"},
    {"freeze", "{\"execute\":\"guest-fsfreeze-status\"}"},
    // Supported by QEMU 9.1 and later.
    {"routes", "{\"execute\":\"guest-network-get-route\"}"},
    // Source: Linux, net/ipv4/fib_trie.c fib_route_seq_show
    {"openRoutes", "{\"execute\":\"guest-file-open\",\"arguments\":{\"path\":\"/proc/net/route\",\"mode\":\"r\"}}"},
};

bool isDigit(char letter) { return letter >= '0' && letter <= '9'; }

// Agent commands about a file that the agent has opened: the text before and after its handle. `count` is so small that
// the answer in base64 is not truncated.
const std::map<std::string, std::pair<const char *, const char *>> kFileCommands = {
    {"readFile", {"{\"execute\":\"guest-file-read\",\"arguments\":{\"handle\":", ",\"count\":32768}}"}},
    {"closeFile", {"{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":", "}}"}},
};

CallResult unknownCommand() {
  return {LibvirtError{VIR_ERR_INVALID_ARG, VIR_FROM_NONE, VIR_ERR_ERROR, "no such agent command"}, {}};
}

// Sends a command to the agent, and returns its reply as JSON.
CallResult sendToAgent(virDomainPtr domain, const char *question) {
  const std::unique_ptr<char, decltype(&free)> answer(virDomainQemuAgentCommand(domain, question, kAgentSeconds, 0),
                                                      free);
  if (answer == nullptr) return outcomeOf(-1);
  return {{}, textOf(answer.get(), kAgentBytesMax)};
}

CallResult askGuestAgent(virDomainPtr domain, const Arguments &arguments) {
  const auto question = kAgentCommands.find(arguments[1]);
  return question == kAgentCommands.end() ? unknownCommand() : sendToAgent(domain, question->second);
}

// Sends a command with a file handle. The handle comes from the guest, so only digits of a 64-bit number are accepted.
CallResult askAboutGuestFile(virDomainPtr domain, const Arguments &arguments) {
  const auto question = kFileCommands.find(arguments[1]);
  const std::string &file = arguments[2];
  const bool isNumber = !file.empty() && file.size() < 19 && std::all_of(file.begin(), file.end(), isDigit);
  if (question == kFileCommands.end() || !isNumber) return unknownCommand();
  const auto &[before, after] = question->second;
  return sendToAgent(domain, (before + file + after).c_str());
}

const DomainOperations kDomainOperations = {
    {"readDomainXml", {2, readXml}},         {"startDomain", {2, startDomain}},
    {"shutdownDomain", {1, shutdownDomain}}, {"destroyDomain", {1, destroyDomain}},
    {"suspendDomain", {1, suspendDomain}},   {"resumeDomain", {1, resumeDomain}},
    {"rebootDomain", {1, rebootDomain}},     {"resetDomain", {1, resetDomain}},
    {"attachDevice", {3, attachDevice}},     {"detachDevice", {3, detachDevice}},
    {"updateDevice", {3, updateDevice}},     {"readGuestInterfaces", {1, readGuestInterfaces}},
    {"readGuestInfo", {2, readGuestInfo}},   {"askGuestAgent", {2, askGuestAgent}},
    {"askAboutGuestFile", {3, askAboutGuestFile}},
};

const DomainOperation *findOperation(const std::string &operation, size_t arguments) {
  for (const DomainOperations *operations : {&kDomainOperations, &migrationOperations()}) {
    const auto found = operations->find(operation);
    if (found == operations->end()) continue;
    const DomainOperation &known = found->second;
    const bool fits = known.more ? arguments >= known.arguments : arguments == known.arguments;
    return fits ? &known : nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<Job> jobFor(const std::string &operation, const Arguments &arguments) {
  if (arguments.empty()) return {};
  if (operation == "findDomain" && arguments.size() == 1) {
    return [arguments](virConnectPtr connection) { return findDomain(connection, arguments); };
  }
  if (operation == "defineDomain" && arguments.size() == 1) {
    return [arguments](virConnectPtr connection) { return defineDomain(connection, arguments); };
  }
  const DomainOperation *const found = findOperation(operation, arguments.size());
  if (found == nullptr) return {};
  return [arguments, call = found->call](virConnectPtr connection) {
    const OwnedDomain domain(virDomainLookupByName(connection, arguments[0].c_str()));
    return domain == nullptr ? outcomeOf(-1) : call(domain.get(), arguments);
  };
}
