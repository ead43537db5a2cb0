// SPDX-License-Identifier: Apache-2.0
// Which migrations and which evictions are refused, and in which words?
import type { EvictionStrategy, VirtualMachineInstance, VmiPhase, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { launcherPodName } from "./owner.ts";
import { respondToEviction, listLauncherNames, migrationProblem } from "./requests.ts";

const KEY = { namespace: "default", name: "vm1" };
const YES = { type: "LiveMigratable", status: "True" } as const;
const NO = {
  type: "LiveMigratable",
  status: "False",
  reason: "DisksNotLiveMigratable",
  message: "a disk",
} as const;

function vmiThat(
  phase: VmiPhase,
  condition?: typeof YES | typeof NO,
  status: VmiStatus = {},
): VirtualMachineInstance {
  const conditions = condition === undefined ? [] : [condition];
  return aVmi({ status: { phase, conditions, ...status } });
}

test.each<{ name: string; vmi: VirtualMachineInstance | undefined; want: string | undefined }>([
  { name: "a missing VMI", vmi: undefined, want: 'the VMI "default/vm1" does not exist' },
  {
    name: "an ended VMI",
    vmi: vmiThat("Succeeded", YES),
    want: "Cannot migrate VMI in finalized state.",
  },
  {
    name: "a VMI that cannot be migrated",
    vmi: vmiThat("Running", NO),
    want: "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: a disk",
  },
  {
    name: "a VMI that is not running yet",
    vmi: vmiThat("Scheduling"),
    want: "Cannot migrate VMI, Reason: LiveMigratableUnknown, Message: whether the guest can be migrated is known once it runs",
  },
  { name: "a VMI that can be migrated", vmi: vmiThat("Running", YES), want: undefined },
])("a migration for $name: $want", ({ vmi, want }) => {
  expect(migrationProblem(vmi, KEY)).toBe(want);
});

const PAUSED = "VMI vm1 is configured with an eviction strategy but is not live-migratable";

const TRIGGERED = 'Eviction triggered evacuation of VMI "default/vm1"';
const HERE = { nodeName: "a" };
const MARKED = { ...HERE, evacuationNodeName: "a" };
const MIGRATES = `${TRIGGERED} from a`;

test.each<{
  strategy?: EvictionStrategy;
  clusterStrategy?: EvictionStrategy;
  vmi: VirtualMachineInstance;
  want: string | undefined;
}>([
  { vmi: vmiThat("Running", NO), want: undefined },
  { strategy: "None", vmi: vmiThat("Running", NO), want: undefined },
  { strategy: "None", vmi: vmiThat("Running", YES, HERE), want: undefined },
  { strategy: "LiveMigrate", vmi: vmiThat("Running", NO), want: PAUSED },
  { strategy: "LiveMigrate", vmi: vmiThat("Scheduling"), want: PAUSED },
  { strategy: "LiveMigrate", vmi: vmiThat("Failed", NO), want: undefined },
  { strategy: "LiveMigrate", vmi: vmiThat("Running", YES, HERE), want: MIGRATES },
  {
    strategy: "LiveMigrate",
    vmi: vmiThat("Running", YES, MARKED),
    want: `Evacuation in progress: ${TRIGGERED}`,
  },
  {
    strategy: "LiveMigrate",
    vmi: vmiThat("Running", YES, { ...HERE, evacuationNodeName: "b" }),
    want: MIGRATES,
  },
  { strategy: "LiveMigrateIfPossible", vmi: vmiThat("Running", NO, HERE), want: undefined },
  { strategy: "LiveMigrateIfPossible", vmi: vmiThat("Running", YES, HERE), want: MIGRATES },
  { strategy: "External", vmi: vmiThat("Running", NO, HERE), want: MIGRATES },
  { strategy: "External", vmi: vmiThat("Scheduling"), want: undefined },
  { clusterStrategy: "LiveMigrate", vmi: vmiThat("Running", NO), want: PAUSED },
  { clusterStrategy: "LiveMigrate", vmi: vmiThat("Running", YES, HERE), want: MIGRATES },
  {
    strategy: "None",
    clusterStrategy: "LiveMigrate",
    vmi: vmiThat("Running", NO),
    want: undefined,
  },
])(
  "an eviction with $strategy in the VM and $clusterStrategy in the cluster, of $vmi.status: $want",
  ({ strategy, clusterStrategy = "None", vmi, want }) => {
    const spec = strategy === undefined ? vmi.spec : { ...vmi.spec, evictionStrategy: strategy };
    const answer = respondToEviction({ ...vmi, spec }, launcherPodName(vmi), clusterStrategy);
    const { message, evacuates } = { evacuates: undefined, message: undefined, ...answer };
    expect(evacuates === undefined ? message : `${String(message)} from ${evacuates}`).toBe(want);
  },
);

test("denies the eviction of a migration's target, which is known while the migration is open", () => {
  const move = { migrationUid: "m1", sourceNode: "a", targetNode: "b" };
  const [source, target] = [launcherPodName(aVmi()), launcherPodName(aVmi(), "m1")];
  const open = vmiThat("Running", YES, { nodeName: "a", migrationState: move });
  expect(listLauncherNames(open)).toEqual([source, target]);
  const message = "Eviction request for target Pod";
  expect(respondToEviction(open, target, "None")).toEqual({ message });
  const incoming = vmiThat("Running", YES, { nodeName: "b", migrationState: move });
  expect(listLauncherNames(incoming)).toEqual([target]);
  const over = { ...move, completed: true };
  const failed = vmiThat("Running", YES, { nodeName: "a", migrationState: over });
  expect(listLauncherNames(failed)).toEqual([source]);
});
