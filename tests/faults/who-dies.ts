// SPDX-License-Identifier: Apache-2.0
// Kinds of deaths during a migration on fakes, by process and by migration stage. Each kind must be covered by a
// scenario.

export interface Death {
  readonly story: string;
  /** Such as `virt-handler on node2`; the first node's have no suffix. */
  readonly process: string;
  /** The guest's stage: at its source, migrating, off there, running at the target. */
  readonly stage: Stage;
}

const STAGES = ["source", "way", "off", "target"] as const;

type Stage = (typeof STAGES)[number];

/** The first action of each stage after the first. */
const BEGINS: Readonly<Record<Exclude<Stage, "source">, string>> = {
  way: "virt-handler migrateDomain",
  off: "virt-handler reportGone",
  target: "virt-handler on node2 resumeDomain",
};

/** The stage after these actions of a migration from the first to the second node. */
export function stageAfter(actions: readonly string[]): Stage {
  const isReached = (stage: Stage): boolean =>
    stage === "source" || actions.includes(BEGINS[stage]);
  return STAGES.findLast(isReached) ?? "source";
}

interface Row {
  readonly id: string;
  readonly dies: string;
  readonly then: string;
  /** Selects the deaths of this row. */
  readonly deaths: (death: Death) => boolean;
}

const [SOURCE, TARGET] = ["virt-handler", "virt-handler on node2"] as const;

export const WHO_DIES: readonly Row[] = [
  {
    id: "target-virt-handler-before",
    dies: "the target's virt-handler, before the guest has left",
    then: "the guest runs at the source, or goes the next time",
    deaths: ({ process, stage }) => process === TARGET && (stage === "source" || stage === "way"),
  },
  {
    id: "target-net-agent",
    dies: "the target's net-agent, while the pod's NICs are made",
    then: "the next one goes on with its journal",
    deaths: ({ process }) => process === "net-agent on node2",
  },
  {
    id: "source-virt-handler",
    dies: "the source's virt-handler, before the guest has left and on its way",
    then: "it ends either way; the next one reads domain and job, and starts none",
    deaths: ({ process, stage }) => process === SOURCE && stage !== "target",
  },
  {
    id: "target-virt-handler-at-the-end",
    dies: "the target's virt-handler, when the guest is there",
    then: "it is paused until the next one has looked",
    deaths: ({ process, stage }) => process === TARGET && stage === "off",
  },
  {
    id: "target-virt-handler-after",
    dies: "the target's virt-handler, when the guest runs there",
    then: "the next one tells it, and the migration has succeeded",
    deaths: ({ process, stage }) => process === TARGET && stage === "target",
  },
  {
    id: "source-node-after",
    dies: "the source's processes, or its pod, after the arrival",
    then: "the guest goes on at the target, once it is known to be off",
    deaths: ({ process, stage }) =>
      process === "net-agent" || (process === SOURCE && stage === "target"),
  },
  {
    id: "virt-controller",
    dies: "virt-controller, at any of its writes",
    then: "the next one goes on from the objects",
    deaths: ({ process }) => process === "virt-controller",
  },
  {
    id: "vm-stopped",
    dies: "anybody, while the VM is stopped or deleted",
    then: "the migration ends first, and the guest is shut down where it runs",
    deaths: ({ story }) => story.includes("its VM is deleted"),
  },
];
