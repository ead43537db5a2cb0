// SPDX-License-Identifier: Apache-2.0
// Rules for names that become DNS labels, with Kubernetes' messages. Source: Kubernetes apimachinery util/validation.
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { causeIf, type ValidatedSpec, type Rule } from "../rule.ts";
import { firstByKey } from "../../values/memoize.ts";

/** Source: Kubernetes DNS1123LabelMaxLength. */
const LABEL_MAX = 63;
/** Source: Kubernetes DNS1123SubdomainMaxLength. */
const SUBDOMAIN_MAX = 253;
/**
 * Maximum length of a VM's name. The name of the pod's log directory, NAMESPACE_POD_UID, has at most 255 bytes. Source: Kubernetes kubelet,
 * BuildPodLogsDirectory; limits.h, NAME_MAX.
 */
const VM_NAME_MAX = 255 - 63 - "virt-launcher-".length - "-00000".length - 36 - "__".length;
const LABEL_SYNTAX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN_SYNTAX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function listFaults(text: string, pattern: RegExp, max: number): readonly string[] {
  return [
    ...(text.length > max ? [`must be no more than ${String(max)} bytes`] : []),
    ...(pattern.test(text)
      ? []
      : [
          `must consist of lower case alphanumeric characters${pattern === LABEL_SYNTAX ? "" : ", '.'"} or '-', and must start and end with an alphanumeric character`,
        ]),
  ];
}

export function labelFaults(text: string): readonly string[] {
  return listFaults(text, LABEL_SYNTAX, LABEL_MAX);
}

export function subdomainFaults(text: string): readonly string[] {
  return listFaults(text, SUBDOMAIN_SYNTAX, SUBDOMAIN_MAX);
}

/** Checks the length of a VM's or VMI's name. The API server checks the syntax. */
export function validateVmName(name: string): readonly Cause[] {
  return causeIf(name.length > VM_NAME_MAX, {
    reason: "FieldValueInvalid",
    field: "metadata.name",
    message: `metadata.name must be no more than ${String(VM_NAME_MAX)} bytes: directories of its pod get its name`,
  });
}

export function namesAreUnique(
  listEntries: (spec: ValidatedSpec) => readonly { readonly name: string }[],
  buildPath: (base: string, index: number) => string,
): Rule {
  return (spec) => {
    const entries = listEntries(spec);
    const indexByName = firstByKey([...entries.keys()], (index) => entries[index]?.name);
    return entries.flatMap(({ name }, index) => {
      const first = indexByName.get(name) ?? index;
      const [path, firstPath] = [buildPath(spec.base, index), buildPath(spec.base, first)];
      return causeIf(first !== index, {
        reason: "FieldValueInvalid",
        field: `${path}.name`,
        message: `${path} and ${firstPath} must not have the same Name.`,
      });
    });
  };
}
