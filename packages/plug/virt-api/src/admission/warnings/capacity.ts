// SPDX-License-Identifier: Apache-2.0
// What a person is told about a declarative edit for which a running VM has no port.
import type { BindingRegistry, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { ifacesWithoutPort } from "@patchbay/core";

/** One warning for each iface of `spec` that has to wait: for a port, or for a start because of its model. */
export function capacityWarnings(
  vmi: VirtualMachineInstance | undefined,
  spec: VmiSpec,
  bindings: BindingRegistry,
): readonly string[] {
  if (vmi === undefined) return [];
  return [...ifacesWithoutPort(vmi, spec, bindings)].map(([name, { reason, message }]) => {
    const until = reason === "NoFreePciePort" ? " until a port is free" : "";
    return `interface "${name}" waits${until}: ${message}`;
  });
}
