// SPDX-License-Identifier: Apache-2.0
// Since when is each NIC of a VM on its way, and what took how long? Kept by the uid of the VMI.
import type { VirtualMachineInstance } from "@patchbay/api";
import { findByName, sayStory, storyAfter, type IfaceStage, type IfaceStory } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";

/** What was seen of the NICs of each VM. */
export interface Stories {
  /** The NICs are as `now` says, whether or not that is told to anybody. */
  see(vmi: VirtualMachineInstance, now: readonly IfaceStage[]): void;
  /** How long it took that NIC to come to where it is, in words; undefined where that is not known. */
  say(vmi: VirtualMachineInstance, iface: string): string | undefined;
  forget(uid: string): void;
}

type OfVm = ReadonlyMap<string, IfaceStory>;

/** Stories of a process that was just started. */
export function createStories(clock: Clock): Stories {
  const stories = new Map<string, OfVm>();
  const storyNow = (vmi: VirtualMachineInstance, stage: IfaceStage, before: OfVm | undefined) => {
    const { name, type, phase } = stage;
    const story = before?.get(name);
    const told = findByName(vmi.status?.interfaces, name)?.hotplug;
    const isFirst = story !== undefined || told === undefined || told.phase === "Ready";
    const isNew = isFirst && vmi.status?.phase === "Running";
    return storyAfter(story, { type, phase, nowMs: clock.monotonicMs(), isNew });
  };
  return {
    see: (vmi, now) => {
      const { uid = "" } = vmi.metadata;
      const before = stories.get(uid);
      // One that has just gone is told of yet.
      const gone = (vmi.status?.interfaces ?? []).filter(
        ({ name = "" }) => findByName(now, name) === undefined,
      );
      const kept = gone.flatMap(({ name = "" }) => {
        const story = before?.get(name);
        return story === undefined ? [] : [[name, story] as const];
      });
      const seen = now.map((stage) => [stage.name, storyNow(vmi, stage, before)] as const);
      stories.set(uid, new Map([...kept, ...seen]));
    },
    say: ({ metadata: { uid = "" } }, iface) =>
      sayStory(stories.get(uid)?.get(iface), clock.monotonicMs()),
    forget: (uid) => {
      stories.delete(uid);
    },
  };
}
