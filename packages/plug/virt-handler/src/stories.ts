// SPDX-License-Identifier: Apache-2.0
// Since when is each NIC of a VM on its way, and what took how long? Kept by the uid of the VMI.
import { isFinalPhase, type IfaceHistory, type VirtualMachineInstance } from "@patchbay/api";
import {
  endedHistory,
  historyOf,
  sayStory,
  seeNics,
  withHindrances,
  type IfaceStage,
  type SeenNics,
} from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";
import { printTime } from "@patchbay/kube";

/** What was seen of the NICs of each VM. */
export interface Stories {
  /** The NICs are as `now` says, whether or not that is told to anybody. */
  see(vmi: VirtualMachineInstance, now: readonly IfaceStage[]): void;
  /** How long it took that NIC to come to where it is, in words; undefined where that is not known. */
  say(vmi: VirtualMachineInstance, iface: string): string | undefined;
  /** What is to be kept of the operations on its NICs, of which `next` is told now. */
  historyOf(vmi: VirtualMachineInstance, next: NextStatus): IfaceHistory;
  /** That was written. */
  noteWritten(uid: string): void;
  forget(uid: string): void;
}

/** What is told of the VMI beside. */
export type NextStatus = Pick<
  NonNullable<VirtualMachineInstance["status"]>,
  "interfaces" | "phase"
>;

/** Stories of a process that was just started. */
export function createStories(clock: Clock): Stories {
  const known = new Map<string, SeenNics>();
  return {
    see: (vmi, stages) => {
      const { uid = "" } = vmi.metadata;
      const at = { nowMs: clock.monotonicMs(), now: printTime(clock.now()) };
      known.set(uid, seeNics(known.get(uid), { vmi, stages, at }));
    },
    say: ({ metadata: { uid = "" } }, iface) =>
      sayStory(known.get(uid)?.stories.get(iface), clock.monotonicMs()),
    historyOf: (vmi, { interfaces = [], phase }) => {
      const { uid = "" } = vmi.metadata;
      const told = vmi.status?.interfaceHistory ?? [];
      const seen = known.get(uid);
      if (seen === undefined) return told;
      const next = withHindrances(seen, interfaces);
      known.set(uid, next);
      const history = historyOf(told, next);
      return isFinalPhase(phase) ? endedHistory(history, printTime(clock.now())) : history;
    },
    noteWritten: (uid) => {
      const seen = known.get(uid);
      if (seen !== undefined) known.set(uid, { ...seen, ended: [] });
    },
    forget: (uid) => {
      known.delete(uid);
    },
  };
}
