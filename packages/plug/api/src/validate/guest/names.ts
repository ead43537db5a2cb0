// SPDX-License-Identifier: Apache-2.0
// Which names Kubernetes takes, and what it says of others. Source: Kubernetes apimachinery util/validation.
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { causeIf, type JudgedSpec, type Rule } from "../rule.ts";

/** Source: Kubernetes DNS1123LabelMaxLength. */
const LABEL_MAX = 63;
/** Source: Kubernetes DNS1123SubdomainMaxLength. */
const SUBDOMAIN_MAX = 253;
/**
 * Longest name of a VM: the node keeps its pod's logs in a directory of at most 255 bytes, which is named after the
 * namespace (63), `virt-launcher-`, the VM, five letters and the pod's uid (36). Source: Kubernetes kubelet,
 * BuildPodLogsDirectory; limits.h, NAME_MAX.
 */
const VM_NAME_MAX = 255 - 63 - "virt-launcher-".length - "-00000".length - 36 - "__".length;
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

/** What keeps a name from being one of a VM or a VMI, beside what the API server asks of all names. */
export function vmNameCauses(name: string): readonly Cause[] {
  return causeIf(name.length > VM_NAME_MAX, {
    reason: "FieldValueInvalid",
    field: "metadata.name",
    message: `metadata.name must be no more than ${String(VM_NAME_MAX)} bytes: directories of its pod get its name`,
  });
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
