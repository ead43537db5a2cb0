// SPDX-License-Identifier: Apache-2.0
// Restarts a guest and lists its NICs.
import { isDeepStrictEqual } from "node:util";
import { eventually } from "@patchbay/support";
import { machine } from "./machine.ts";

/** Time for a boot, or for all NICs at once, under software emulation on a busy machine. */
export const ALL_MS = 120_000;

export async function restart(vm: string): Promise<void> {
  const uid = machine.findVmi(vm)?.metadata.uid;
  machine.patchbay("restart", vm);
  await eventually(
    () => {
      const vmi = machine.findVmi(vm);
      return vmi?.metadata.uid !== uid && vmi?.status?.phase === "Running";
    },
    { withinMs: ALL_MS },
  );
  await machine.booted(vm);
}

export interface GuestNic {
  readonly mac: string;
  readonly pciAddress: string;
}

async function readNics(vm: string): Promise<readonly GuestNic[]> {
  const { lines } = await machine.console(vm).run("report");
  return lines
    .flatMap((line) => {
      const [, mac, pciAddress] = / mac (\S+) pci (\S+) /.exec(line) ?? [];
      return mac === undefined || pciAddress === undefined ? [] : [{ mac, pciAddress }];
    })
    .toSorted((left, right) => (left.pciAddress < right.pciAddress ? -1 : 1));
}

/** The guest's NICs by PCI address. Two reports must agree, because a message of the guest's kernel can hide a line of one. */
export async function guestNics(vm: string): Promise<readonly GuestNic[]> {
  let last = await readNics(vm);
  return eventually(
    async () => {
      const before = last;
      last = await readNics(vm);
      return isDeepStrictEqual(before, last) ? last : undefined;
    },
    { withinMs: ALL_MS },
  );
}
