// SPDX-License-Identifier: Apache-2.0
// Who may die while a guest moves, and what tries it: deaths after single actions of its story on fakes, and tests of what no process of
// ours is. A row that nothing tries is a fault of the tests.

/** What the deaths of one telling come to. */
export interface Death {
  readonly story: string;
  /** By name, as `virt-handler on node2`; the first node's have no node in it. */
  readonly process: string;
  /** How far the guest was: at its source, on its way, off there, running at the target. */
  readonly stage: Stage;
}

const STAGES = ["source", "way", "off", "target"] as const;

type Stage = (typeof STAGES)[number];

/** The first action of each stage but the first. */
const BEGINS: Readonly<Record<Exclude<Stage, "source">, string>> = {
  way: "virt-handler migrateDomain",
  off: "virt-handler tellGone",
  target: "virt-handler on node2 resumeDomain",
};

/** The stage that was reached by these actions of a move from the first node to the second. */
export function stageAfter(actions: readonly string[]): Stage {
  const isReached = (stage: Stage): boolean =>
    stage === "source" || actions.includes(BEGINS[stage]);
  return STAGES.findLast(isReached) ?? "source";
}

/** A test by its title, or by the name of its row, in a file. */
interface Named {
  readonly file: string;
  readonly title: string;
}

interface Row {
  readonly id: string;
  readonly dies: string;
  readonly then: string;
  /** Deaths of the stories that try it; absent: none does. */
  readonly deaths?: (death: Death) => boolean;
  readonly tests?: readonly Named[];
}

const E2E = "tests/e2e/migration/migration.long.test.ts";
const ON_FAKES = "packages/plug/virt-handler/src/migration/two-nodes.test.ts";
const CONTROLLER = "packages/plug/virt-controller/src/migration.test.ts";
const COURSE = "packages/plug/core/src/migration/control/course.test.ts";
const LIBVIRT = "tests/contract/libvirt/move.long.test.ts";
const LAUNCHER = "tests/contract/launcher/migration.long.test.ts";
const PROGRESS = "packages/plug/virt-handler/src/migration/progress.test.ts";

const [SOURCE, TARGET] = ["virt-handler", "virt-handler on node2"] as const;

/** The table. */
export const WHO_DIES: readonly Row[] = [
  {
    id: "target-virt-handler-before",
    dies: "the target's virt-handler, before the guest has left",
    then: "the guest runs at the source, or goes the next time",
    deaths: ({ process, stage }) => process === TARGET && (stage === "source" || stage === "way"),
    tests: [{ file: E2E, title: "the target's virt-handler" }],
  },
  {
    id: "target-net-agent",
    dies: "the target's net-agent, while the pod's NICs are made",
    then: "the next one goes on with its journal",
    deaths: ({ process }) => process === "net-agent on node2",
  },
  {
    id: "target-pod-before",
    dies: "the target's pod, its QEMU or its libvirt, before the switchover",
    then: "the guest runs at the source; the migration has failed and says why; pod and attachments are gone",
    tests: [
      { file: E2E, title: "the target's pod" },
      { file: E2E, title: "the target's QEMU" },
      { file: CONTROLLER, title: "the target pod ends" },
      { file: COURSE, title: "the target's pod ends on its way" },
      { file: LIBVIRT, title: "when the target's daemon dies" },
      {
        file: LAUNCHER,
        title:
          "a launcher that is told to end while a guest comes ends at once, and the guest stays where it is",
      },
    ],
  },
  {
    id: "target-node-before",
    dies: "the target's node, before the switchover",
    then: "the source is asked to end it, and the guest runs there",
    tests: [
      { file: COURSE, title: "the target's node does not answer" },
      { file: COURSE, title: "the target's node is silent on its way" },
    ],
  },
  {
    id: "source-virt-handler",
    dies: "the source's virt-handler, before the guest has left and on its way",
    then: "it ends either way; the next one reads domain and job, and starts none",
    deaths: ({ process, stage }) => process === SOURCE && stage !== "target",
    tests: [
      { file: E2E, title: "its virt-handler" },
      {
        file: ON_FAKES,
        title:
          "the source's virt-handler dies on the way, and the guest arrives: the next one tells",
      },
    ],
  },
  {
    id: "source-libvirt-at-the-end",
    dies: "the source's libvirt, at the last moment",
    then: "paused in both places, and it goes on at the source alone",
    tests: [
      {
        file: ON_FAKES,
        title:
          "libvirt of the source dies at the last moment: it goes on there, and never at the target",
      },
      {
        file: LIBVIRT,
        title:
          "when the source's daemon dies once all is over: paused in both places, and it goes on where the plan says",
      },
    ],
  },
  {
    id: "target-virt-handler-at-the-end",
    dies: "the target's virt-handler, when the guest is there",
    then: "it is paused until the next one has looked",
    deaths: ({ process, stage }) => process === TARGET && stage === "off",
    tests: [
      {
        file: E2E,
        title:
          "it goes on at its target when virt-handler there dies as it has come, before it has let it go on",
      },
    ],
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
    tests: [
      {
        file: ON_FAKES,
        title:
          "the source's pod has ended, and nobody has said anything: virt-controller's word is enough",
      },
    ],
  },
  {
    id: "relay-silent",
    dies: "a relay, which falls silent or breaks",
    then: "the guest stays, after `progressTimeout` where nobody says anything",
    tests: [
      {
        file: PROGRESS,
        title: "a move of which nothing comes over is ended, and the guest stays",
      },
      { file: LIBVIRT, title: "when the way between the daemons breaks" },
    ],
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
    tests: [
      { file: CONTROLLER, title: "is shut down where it is, once its migration has ended" },
      { file: CONTROLLER, title: "is shut down at the target, where the guest had arrived" },
      {
        file: LAUNCHER,
        title: "a guest whose launcher is told to end while it leaves stays, and is shut down",
      },
    ],
  },
];
