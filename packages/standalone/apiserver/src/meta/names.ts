// SPDX-License-Identifier: Apache-2.0
// Error messages for invalid names, labels and annotation keys. Source: Kubernetes util/validation.

const LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_LABEL = new RegExp(`^${LABEL}$`);
const DNS_SUBDOMAIN = new RegExp(`^${LABEL}(\\.${LABEL})*$`);
const DNS_1035 = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;
const QUALIFIED = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const LABEL_MAX = 63;
const SUBDOMAIN_MAX = 253;

function regexMessage(rule: string, example: string, regex: string): string {
  return `${rule} (e.g. '${example}', regex used for validation is '${regex}')`;
}

function tooLongMessage(maximum: number): string {
  return `must be no more than ${String(maximum)} characters`;
}

export function subdomainFault(name: string): string | undefined {
  if (name.length > SUBDOMAIN_MAX) {
    return tooLongMessage(SUBDOMAIN_MAX);
  }
  return DNS_SUBDOMAIN.test(name)
    ? undefined
    : regexMessage(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        "example.com",
        `${LABEL}(\\.${LABEL})*`,
      );
}

export function labelFault(name: string): string | undefined {
  if (name.length > LABEL_MAX) {
    return tooLongMessage(LABEL_MAX);
  }
  return DNS_LABEL.test(name)
    ? undefined
    : regexMessage(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
        "my-name",
        LABEL,
      );
}

export function dns1035Fault(name: string): string | undefined {
  if (name.length > LABEL_MAX) {
    return tooLongMessage(LABEL_MAX);
  }
  return DNS_1035.test(name)
    ? undefined
    : regexMessage(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        "my-name",
        "[a-z]([-a-z0-9]*[a-z0-9])?",
      );
}

/** Returns an error message if the name is not usable as one segment of a URL path; otherwise undefined. */
export function pathSegmentFault(name: string): string | undefined {
  return name === "." || name === ".." || /[/%]/.test(name)
    ? "may not be '.', '..' or contain '/' or '%'"
    : undefined;
}

/** Returns an error message for an invalid label key, annotation key or finalizer; otherwise undefined. */
export function qualifiedNameFault(key: string): string | undefined {
  const parts = key.split("/");
  const name = parts.at(-1) ?? "";
  const prefix = parts.length > 1 ? parts[0] : undefined;
  const prefixFault = prefix === undefined ? undefined : subdomainFault(prefix);
  if (parts.length > 2 || prefixFault !== undefined) {
    return "a qualified name must consist of an optional DNS subdomain prefix and '/', and a name";
  }
  if (name.length > LABEL_MAX) {
    return `name part ${tooLongMessage(LABEL_MAX)}`;
  }
  return QUALIFIED.test(name)
    ? undefined
    : regexMessage(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        "MyName",
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
      );
}

export function labelValueFault(value: string): string | undefined {
  if (value.length > LABEL_MAX) {
    return tooLongMessage(LABEL_MAX);
  }
  return LABEL_VALUE.test(value)
    ? undefined
    : regexMessage(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        "MyValue",
        "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
      );
}
