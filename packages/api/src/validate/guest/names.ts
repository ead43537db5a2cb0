// SPDX-License-Identifier: Apache-2.0
// Which names Kubernetes takes, and what it says of others. Source: Kubernetes apimachinery util/validation.
import { causeIf, type JudgedSpec, type Rule } from "../rule.ts";

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

/** A rule by which no two entries of a list have one name; of those that have, all but the first are told. */
export function namesAreUnique(
  entriesOf: (spec: JudgedSpec) => readonly { readonly name: string }[],
  pathOf: (base: string, index: number) => string,
): Rule {
  return (spec) => {
    const entries = entriesOf(spec);
    return entries.flatMap(({ name }, index) => {
      const first = entries.findIndex((other) => other.name === name);
      const [path, firstPath] = [pathOf(spec.base, index), pathOf(spec.base, first)];
      return causeIf(first !== index, {
        reason: "FieldValueInvalid",
        field: `${path}.name`,
        message: `${path} and ${firstPath} must not have the same Name.`,
      });
    });
  };
}
