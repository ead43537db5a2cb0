// SPDX-License-Identifier: Apache-2.0
// What a person is told about a declarative edit for which a running VM has no port.
import type { VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { bookPorts, findByName, ifacesOf, sayNoIoPorts, sayNoPort } from "@patchbay/core";

/** One warning for each iface of `spec` that has to wait: for a port, or for a start because of its model. */
export function capacityWarnings(
  vmi: VirtualMachineInstance | undefined,
  spec: VmiSpec,
): readonly string[] {
  const book = vmi === undefined ? undefined : bookPorts(vmi, spec);
  if (vmi === undefined || book === undefined) return [];
  return book.promised.flatMap((name, position) => {
    const unfit = sayNoIoPorts(vmi, findByName(ifacesOf(spec), name));
    if (unfit !== undefined) return [`interface "${name}" waits: ${unfit}`];
    return position < book.free
      ? []
      : [`interface "${name}" waits until a port is free: ${sayNoPort(vmi)}`];
  });
}
