// SPDX-License-Identifier: Apache-2.0
// Which names Kubernetes takes, and what it says of others. Source: Kubernetes apimachinery util/validation.

/** Source: Kubernetes DNS1123LabelMaxLength. */
const LABEL_MAX = 63;
/** Source: Kubernetes DNS1123SubdomainMaxLength. */
const SUBDOMAIN_MAX = 253;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function faultsOf(text: string, pattern: RegExp, max: number): readonly string[] {
  return [
    ...(text.length > max ? [`must be no more than ${String(max)} bytes`] : []),
    ...(pattern.test(text)
      ? []
      : [
          `must consist of lower case alphanumeric characters${pattern === LABEL ? "" : ", '.'"} or '-', and must start and end with an alphanumeric character`,
        ]),
  ];
}

/** What keeps a text from being one part of a DNS name; none: nothing does. */
export function labelFaults(text: string): readonly string[] {
  return faultsOf(text, LABEL, LABEL_MAX);
}

/** What keeps a text from being a DNS name; none: nothing does. */
export function subdomainFaults(text: string): readonly string[] {
  return faultsOf(text, SUBDOMAIN, SUBDOMAIN_MAX);
}
