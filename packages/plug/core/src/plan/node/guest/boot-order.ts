// SPDX-License-Identifier: Apache-2.0
// From which disks a guest is booted, and in which order.
import type { VmiSpec } from "@patchbay/api";
import { disksOf } from "../../../spec/disks.ts";
import { ifacesOf } from "../../../spec/nics.ts";

/** Behind every number that a NIC may be plugged with while the guest runs: libvirt refuses a number twice. */
const UNSAID_FROM = 1001;

/**
 * Numbers by name of the disk: what the VM says of them. Where it says nothing of any disk or NIC and boots no
 * kernel, disks are tried in the order of the list. One without a number is not tried.
 */
export function bootOrderOf(spec: VmiSpec): ReadonlyMap<string, number> {
  const disks = disksOf(spec);
  const isSaid = [...disks, ...ifacesOf(spec)].some(({ bootOrder }) => bootOrder !== undefined);
  const hasKernel = spec.domain.firmware?.kernelBoot?.container !== undefined;
  return new Map(
    disks.flatMap(({ name, bootOrder }, index): readonly [string, number][] => {
      const order = isSaid || hasKernel ? bootOrder : UNSAID_FROM + index;
      return order === undefined ? [] : [[name, order]];
    }),
  );
}
