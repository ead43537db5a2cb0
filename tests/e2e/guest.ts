// SPDX-License-Identifier: Apache-2.0
// Restarts a guest and lists its NICs.
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

/** The guest's NICs by PCI address. Repeats a report whose lines are not as many as it states, because the log can lack one. */
export async function guestNics(vm: string): Promise<readonly GuestNic[]> {
  return eventually(
    async () => {
      const { lines } = await machine.console(vm).run("report");
      const nics = lines.flatMap((line) => {
        const [, mac, pciAddress] = / mac (\S+) pci (\S+) /.exec(line) ?? [];
        return mac === undefined || pciAddress === undefined ? [] : [{ mac, pciAddress }];
      });
      if (!lines.includes(`nics ${String(nics.length)}`)) return undefined;
      return nics.toSorted((left, right) => (left.pciAddress < right.pciAddress ? -1 : 1));
    },
    { withinMs: ALL_MS },
  );
}
