// SPDX-License-Identifier: Apache-2.0
// How long each plug and unplug takes, for events and `status.interfaceHistory`.
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

/** Phase timings of the NICs of each VM. */
export interface Stories {
  /** Records the current phases of the NICs, whether or not they are reported. */
  see(vmi: VirtualMachineInstance, now: readonly IfaceStage[]): void;
  /** Describes how long the NIC took to reach its phase; undefined when that is unknown. */
  say(vmi: VirtualMachineInstance, iface: string): string | undefined;
  /** The history to write to the status together with `next`. */
  historyOf(vmi: VirtualMachineInstance, next: NextStatus): IfaceHistory;
  /** Drops the finished operations, because they are in the status now. */
  noteWritten(uid: string): void;
  forget(uid: string): void;
}

export type NextStatus = Pick<
  NonNullable<VirtualMachineInstance["status"]>,
  "interfaces" | "phase"
>;

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
