// SPDX-License-Identifier: Apache-2.0
// Length of an outage after the leader's death, and its effect on running plugs.
import { setTimeout as sleep } from "node:timers/promises";
import { leaderOf, plugThroughFailures, type Failover } from "./failover.ts";
import type { Row } from "./measure.ts";
import { processorMs, type Service } from "./service.ts";
import { withStage, type Stage } from "./stage.ts";

const ROUNDS = 3;
const PLUGS = 50;

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

/** Processor time within {@link LOOK_MS} below which a starting process counts as idle, milliseconds. */
const REST_CPU_MS = 50;
const LOOK_MS = 1000;
/** Limit of checks of a process that does not become idle. */
const LOOKS_MAX = 120;

/** The standby has read everything before it is needed, as on a cluster except in its first seconds. */
async function untilAtRest({ pid }: Service): Promise<void> {
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const before = processorMs(pid);
    await sleep(LOOK_MS);
    if (processorMs(pid) - before < REST_CPU_MS) return;
  }
  throw new Error(`process ${String(pid)} does not come to rest`);
}

/** Interval of Lease checks. */
const HOLDER_LOOK_MS = 20;

/** A takeover's duration since the leader's death, milliseconds. */
interface Takeover {
  /** Until another one holds the Lease. */
  readonly leaseMs: number;
  /** Until the pod's annotation has the NIC requested just after the death. */
  readonly plugMs: number;
}

async function untilHeldByAnother(stage: Stage, holder: string): Promise<void> {
  while ([holder, ""].includes(await stage.holder())) await sleep(HOLDER_LOOK_MS);
}

async function takeOver(stage: Stage, index: number): Promise<Takeover> {
  const leader = await leaderOf(stage);
  const holder = await stage.holder();
  const annotated = stage.vms.annotated(index);
  const begin = performance.now();
  const msUntil = async (moment: Promise<unknown>): Promise<number> => {
    await moment;
    return performance.now() - begin;
  };
  await stage.end(leader, "killed");
  const lease = msUntil(untilHeldByAnother(stage, holder));
  await stage.vms.ask(index);
  const [leaseMs, plugMs] = await Promise.all([lease, msUntil(annotated)]);
  await stage.vms.unplug(index);
  await untilAtRest(await stage.startVirtController({ elects: true }));
  return { leaseMs, plugMs };
}

function failoverRow(how: string, failover: Failover): Row {
  const { totalMs, longestGapMs, refused, wrong } = failover;
  const text = `${seconds(totalMs)}, longest gap ${seconds(longestGapMs)}, ${String(refused)} sent again, ${String(wrong.length)} wrong`;
  return [`${String(PLUGS)} plugs, leader killed, one virt-api ${how}`, text];
}

function print([name, value]: Row): void {
  process.stdout.write(`${name.padEnd(60)}${value}\n`);
}

async function startTwo(stage: Stage, vms: number): Promise<void> {
  await stage.end(stage.virtController, "asked");
  const first = await stage.startVirtController({ elects: true });
  await stage.startVirtApi();
  await stage.vms.create(vms);
  const second = await stage.startVirtController({ elects: true });
  await Promise.all([untilAtRest(first), untilAtRest(second)]);
  print(["start of the one that stands by", seconds(second.readyMs)]);
}

async function measure(stage: Stage, vms: number): Promise<void> {
  await startTwo(stage, vms);
  for (let round = 0; round < ROUNDS; round += 1) {
    const { leaseMs, plugMs } = await takeOver(stage, round);
    const text = `${seconds(plugMs)}, of which the Lease ${seconds(leaseMs)}`;
    print([`takeover ${String(round + 1)}`, text]);
  }
  for (const how of ["asked", "killed"] as const) {
    const failover = await plugThroughFailures(stage, { count: PLUGS, virtApi: how });
    print(failoverRow(how === "asked" ? "deleted" : "killed", failover));
    const [, standBy] = await Promise.all([
      stage.startVirtApi(),
      stage.startVirtController({ elects: true }),
    ]);
    await untilAtRest(standBy);
    await stage.vms.unplugAll(PLUGS);
    await stage.vms.settle();
  }
}

/** Measures with so many VMs and prints each row when it is known. */
export async function measureTakeover(vms: number): Promise<void> {
  print(["VMs", String(vms)]);
  await withStage((stage) => measure(stage, vms));
}
