// SPDX-License-Identifier: Apache-2.0
// Migration of a domain: the call that lasts as long as the migration, and calls on other connections that observe, tune
// and abort it. TypeScript decides on flags and parameters.
#include <libvirt/virterror.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "operation.h"

namespace {

// Maximum number of a job's facts; libvirt 9.0 has forty.
constexpr int kJobFactsMax = 128;

// Typed parameters, which libvirt allocates.
struct Parameters {
  virTypedParameterPtr items = nullptr;
  int count = 0;
  int capacity = 0;
  Parameters() = default;
  Parameters(const Parameters &) = delete;
  Parameters &operator=(const Parameters &) = delete;
  ~Parameters() { virTypedParamsFree(items, count); }

  int addText(const char *name, const std::string &value) {
    return virTypedParamsAddString(&items, &count, &capacity, name, value.c_str());
  }
  int addNumber(const char *name, const std::string &value) {
    const unsigned long long number = strtoull(value.c_str(), nullptr, 10);
    return virTypedParamsAddULLong(&items, &count, &capacity, name, number);
  }
};

// Functions that add a parameter, by libvirt's name. Source: libvirt virDomainMigrateToURI3, VIR_MIGRATE_PARAM_*.
const std::map<std::string, int (Parameters::*)(const char *, const std::string &)> kParameters = {
    {VIR_MIGRATE_PARAM_URI, &Parameters::addText},
    {VIR_MIGRATE_PARAM_DEST_XML, &Parameters::addText},
    {VIR_MIGRATE_PARAM_PERSIST_XML, &Parameters::addText},
    {VIR_MIGRATE_PARAM_BANDWIDTH, &Parameters::addNumber},
    {VIR_MIGRATE_PARAM_DISKS_URI, &Parameters::addText},
    {VIR_MIGRATE_PARAM_MIGRATE_DISKS, &Parameters::addText},  // once for each disk
};

CallResult refuse(const char *message) {
  return {LibvirtError{VIR_ERR_INVALID_ARG, VIR_FROM_NONE, VIR_ERR_ERROR, message}, {}};
}

// Arguments: name, URI of the target's daemon, flags in decimal, then names and values of parameters.
CallResult migrateDomain(virDomainPtr domain, const Arguments &arguments) {
  Parameters parameters;
  for (size_t index = 3; index < arguments.size(); index += 2) {
    const auto known = kParameters.find(arguments[index]);
    if (known == kParameters.end() || index + 1 == arguments.size()) return refuse("no such parameter");
    if ((parameters.*known->second)(known->first.c_str(), arguments[index + 1]) < 0) return outcomeOf(-1);
  }
  const auto flags = static_cast<unsigned int>(strtoul(arguments[2].c_str(), nullptr, 10));
  return outcomeOf(
      virDomainMigrateToURI3(domain, arguments[1].c_str(), parameters.items, parameters.count, flags));
}

const char *jobTypeName(int type) {
  switch (static_cast<virDomainJobType>(type)) {
    case VIR_DOMAIN_JOB_NONE:
      return "none";
    case VIR_DOMAIN_JOB_BOUNDED:
    case VIR_DOMAIN_JOB_UNBOUNDED:
      return "running";
    case VIR_DOMAIN_JOB_COMPLETED:
      return "completed";
    case VIR_DOMAIN_JOB_FAILED:
      return "failed";
    case VIR_DOMAIN_JOB_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

CallResult readJob(virDomainPtr domain, const Arguments &) {
  Parameters found;
  int type = VIR_DOMAIN_JOB_NONE;
  if (virDomainGetJobStats(domain, &type, &found.items, &found.count, 0) < 0) return outcomeOf(-1);
  Facts facts = {{"type", jobTypeName(type)}};
  for (int index = 0; index < std::min(found.count, kJobFactsMax); index++) {
    const virTypedParameter &item = found.items[index];
    // The value of a text is empty, because the texts of a job are for humans.
    facts.emplace_back(textOf(item.field, VIR_TYPED_PARAM_FIELD_LENGTH), numberOf(item));
  }
  return {{}, std::move(facts)};
}

// Aborts the job. Returns success if the job has ended, or the domain does not run and therefore has none.
CallResult abortJob(virDomainPtr domain, const Arguments &) {
  if (virDomainAbortJob(domain) == 0) return {};
  const LibvirtError error = lastError();
  if (virDomainIsActive(domain) == 0) return {};
  virDomainJobInfo info = {};
  if (virDomainGetJobInfo(domain, &info) == 0 && info.type == VIR_DOMAIN_JOB_NONE) return {};
  return {error, {}};
}

CallResult setMaxDowntime(virDomainPtr domain, const Arguments &arguments) {
  return outcomeOf(virDomainMigrateSetMaxDowntime(domain, strtoull(arguments[1].c_str(), nullptr, 10), 0));
}

CallResult setMaxSpeed(virDomainPtr domain, const Arguments &arguments) {
  return outcomeOf(virDomainMigrateSetMaxSpeed(domain, strtoul(arguments[1].c_str(), nullptr, 10), 0));
}

}  // namespace

const DomainOperations &migrationOperations() {
  static const DomainOperations operations = {
      {"migrateDomain", {3, migrateDomain, true}},
      {"readJob", {1, readJob}},
      {"abortJob", {1, abortJob}},
      {"setMaxDowntime", {2, setMaxDowntime}},
      {"setMaxSpeed", {2, setMaxSpeed}},
  };
  return operations;
}
