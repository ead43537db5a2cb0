// SPDX-License-Identifier: Apache-2.0
// How long does nobody plug when the leader is gone, and what becomes of plugs that are under way?
import { setTimeout as sleep } from "node:timers/promises";
import { leaderOf, plugThroughFailures, type Failover } from "./failover.ts";
import type { Row } from "./measure.ts";
import { processorMs, type Service } from "./service.ts";
import { withStage, type Stage } from "./stage.ts";

/** Times that the leader is killed at rest. */
const ROUNDS = 3;
const PLUGS = 50;

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

/** Of processor time within {@link LOOK_MS}, milliseconds: a process that uses less has done what its start brought. */
const REST_CPU_MS = 50;
const LOOK_MS = 1000;
/** Looks at a process that does not come to rest. */
const LOOKS_MAX = 120;

/** The one that stands by has read everything once before it is needed: so it is on a cluster, but in its first seconds. */
async function untilAtRest({ pid }: Service): Promise<void> {
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const before = processorMs(pid);
    await sleep(LOOK_MS);
    if (processorMs(pid) - before < REST_CPU_MS) return;
  }
  throw new Error(`process ${String(pid)} does not come to rest`);
}

/** From the leader's death to the pod's annotation for a NIC that was asked for just after it, milliseconds. */
async function takeOver(stage: Stage, index: number): Promise<number> {
  const leader = await leaderOf(stage);
  const annotated = stage.vms.annotated(index);
  const begin = performance.now();
  await stage.end(leader, "killed");
  await stage.vms.ask(index);
  const ms = (await annotated) - begin;
  await untilAtRest(await stage.startVirtController({ elects: true }));
  return ms;
}

function failoverRow(how: string, failover: Failover): Row {
  const { totalMs, longestGapMs, refused, wrong } = failover;
  const text = `${seconds(totalMs)}, longest gap ${seconds(longestGapMs)}, ${String(refused)} sent again, ${String(wrong.length)} wrong`;
  return [`${String(PLUGS)} plugs, leader killed, one virt-api ${how}`, text];
}

async function measure(stage: Stage, vms: number): Promise<readonly Row[]> {
  await stage.end(stage.virtController, "asked");
  await stage.startVirtController({ elects: true });
  await stage.startVirtApi();
  await stage.vms.create(vms);
  const second = await stage.startVirtController({ elects: true });
  await untilAtRest(second);
  const rows: Row[] = [["start of the one that stands by", seconds(second.readyMs)]];
  for (const how of ["asked", "killed"] as const) {
    const failover = await plugThroughFailures(stage, { count: PLUGS, virtApi: how });
    rows.push(failoverRow(how === "asked" ? "deleted" : "killed", failover));
    const [, standBy] = await Promise.all([
      stage.startVirtApi(),
      stage.startVirtController({ elects: true }),
    ]);
    await untilAtRest(standBy);
    await stage.vms.unplugAll(PLUGS);
    await stage.vms.settle();
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    rows.push([`takeover ${String(round + 1)}`, seconds(await takeOver(stage, round))]);
  }
  return rows;
}

/** Measures with so many VMs, and prints the table. */
export async function measureTakeover(vms: number): Promise<void> {
  await withStage(async (stage) => {
    const rows = await measure(stage, vms);
    for (const [name, value] of [["VMs", String(vms)] as const, ...rows]) {
      process.stdout.write(`${name.padEnd(60)}${value}\n`);
    }
  });
}
