// SPDX-License-Identifier: Apache-2.0
// One run with one number of VMs, from empty to the last start.
import { setTimeout as pass } from "node:timers/promises";
import { quantile } from "../apiserver/load.ts";
import { processorMs, residentMb, type Counts } from "./service.ts";
import type { Stage } from "./stage.ts";
import type { BurstTimes } from "./vms.ts";

/** Plugs one after the other. */
const SINGLES = 50;
/** Idle time before memory is read and while idle cost is measured, milliseconds. */
const REST_MS = 20_000;

export type Row = readonly [name: string, value: string];

function ms(value: number): string {
  return `${value.toFixed(value < 20 ? 1 : 0)} ms`;
}

function medianAndTail(values: readonly number[]): string {
  const sorted = values.toSorted((left, right) => left - right);
  return `${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`;
}

/** Differences of two readings without watches, divided by `among`, sorted descending. */
function difference(
  before: Counts,
  after: Counts,
  among: number,
): readonly (readonly [string, number])[] {
  return [...after]
    .filter(([word]) => !word.startsWith("watch "))
    .map(([word, count]) => [word, (count - (before.get(word) ?? 0)) / among] as const)
    .filter(([, count]) => count > 0)
    .toSorted(([, left], [, right]) => right - left);
}

function print(counts: readonly (readonly [string, number])[]): string {
  const sum = counts.reduce((total, [, count]) => total + count, 0);
  const text = counts.map(([word, count]) => `${String(Number(count.toFixed(2)))} ${word}`);
  return `${sum.toFixed(1)}${text.length === 0 ? "" : `: ${text.join(", ")}`}`;
}

/** Two readings and the number of plugs between them. */
interface Span {
  readonly before: Reading;
  readonly after: Reading;
  readonly among: number;
}

/** Counters and clocks of all processes at one moment. */
interface Reading {
  readonly apiSent: Counts;
  readonly apiServed: Counts;
  readonly controllerSent: Counts;
  readonly nodeSent: number;
  /** Processor time by process, milliseconds. */
  readonly cpu: readonly (readonly [string, number])[];
}

async function read(stage: Stage): Promise<Reading> {
  const { virtApi, virtController, server } = stage;
  const processes: readonly (readonly [string, number | undefined])[] = [
    ["API server", server.pid],
    ["virt-api", virtApi.pid],
    ["virt-controller", virtController.pid],
    ["node and people", process.pid],
  ];
  return {
    apiSent: await virtApi.sent(),
    apiServed: await virtApi.served(),
    controllerSent: await virtController.sent(),
    nodeSent: stage.nodeSent.count,
    cpu: processes.map(([name, pid]) => [name, pid === undefined ? NaN : processorMs(pid)]),
  };
}

function requestRows(what: string, { before, after, among }: Span): readonly Row[] {
  const node = (after.nodeSent - before.nodeSent) / among;
  const served = difference(before.apiServed, after.apiServed, among);
  return [
    [`${what}, virt-api asks`, print(difference(before.apiSent, after.apiSent, among))],
    [
      `${what}, virt-controller asks`,
      print(difference(before.controllerSent, after.controllerSent, among)),
    ],
    [`${what}, the simulated node asks`, node.toFixed(1)],
    [`${what}, virt-api is asked`, print(served)],
  ];
}

function cpuRows(what: string, { before, after, among }: Span): readonly Row[] {
  return after.cpu.map(([name, used], index) => {
    const [, usedBefore = NaN] = before.cpu[index] ?? [];
    return [`${what}, CPU of ${name}`, ms((used - usedBefore) / among)];
  });
}

function memoryRow(when: string, { virtApi, virtController }: Stage): Row {
  const [api, controller] = [virtApi, virtController].map(({ pid }) => residentMb(pid).toFixed(0));
  return [`memory ${when}, virt-api / virt-controller`, `${api ?? ""} / ${controller ?? ""} MB`];
}

async function measureSingles(stage: Stage, vms: number): Promise<readonly Row[]> {
  const rounds = Math.min(SINGLES, vms);
  const before = await read(stage);
  const times = [];
  for (let index = 0; index < rounds; index += 1) times.push(await stage.vms.plug(index));
  await stage.vms.settle();
  const plugged = await read(stage);
  const unplugs = [];
  for (let index = 0; index < rounds; index += 1) unplugs.push(await stage.vms.unplug(index));
  await stage.vms.settle();
  const unplugged = await read(stage);
  return [
    ["one plug: PUT answered", medianAndTail(times.map(({ answered }) => answered))],
    ["one plug: PUT to annotation", medianAndTail(times.map(({ annotated }) => annotated))],
    ["one plug: PUT to Attached", medianAndTail(times.map(({ attached }) => attached))],
    ["one unplug: PUT to VM rid of it", medianAndTail(unplugs)],
    ...requestRows("one plug", { before, after: plugged, among: rounds }),
    ...requestRows("one unplug", { before: plugged, after: unplugged, among: rounds }),
  ];
}

async function measureBurst(
  stage: Stage,
  { what, vms }: { readonly what: string; readonly vms: number },
  run: () => Promise<BurstTimes>,
): Promise<readonly Row[]> {
  const before = await read(stage);
  const { put, totalMs } = await run();
  await stage.vms.settle();
  const after = await read(stage);
  return [
    [`${what}: whole`, `${(totalMs / 1000).toFixed(1)} s, ${ms(totalMs / vms)} each`],
    [`${what}: PUT answered, 32 at a time`, medianAndTail(put.timesMs)],
    ...cpuRows(what, { before, after, among: vms }),
    ...requestRows(what, { before, after, among: vms }),
  ];
}

async function measureRest(stage: Stage): Promise<readonly Row[]> {
  const before = await read(stage);
  await pass(REST_MS);
  const after = await read(stage);
  const seconds = REST_MS / 1000;
  const requested = [
    ...difference(before.apiSent, after.apiSent, 1),
    ...difference(before.controllerSent, after.controllerSent, 1),
  ];
  return [
    [`at rest, ${String(seconds)} s: requests beside watches`, print(requested)],
    ...cpuRows("at rest, each second", { before, after, among: seconds }),
  ];
}

/** The NIC is requested without a controller; virt-api answers a first request. */
async function measureStarts(stage: Stage): Promise<readonly Row[]> {
  await stage.end(stage.virtController, "asked");
  await stage.vms.ask(0);
  const annotated = stage.vms.annotated(0);
  const controllerBegin = performance.now();
  const controller = await stage.startVirtController();
  const worked = (await annotated) - controllerBegin;
  await stage.vms.settle();
  await stage.end(stage.virtApi, "asked");
  const apiBegin = performance.now();
  const api = await stage.startVirtApi();
  await stage.vms.ask(0);
  const answered = performance.now() - apiBegin;
  await pass(REST_MS);
  const row = (ready: number, first: number): string => `${ms(ready)} / ${ms(first)}`;
  return [
    ["start of virt-controller: ready / first annotation", row(controller.readyMs, worked)],
    ["start of virt-api: ready / first PUT answered", row(api.readyMs, answered)],
    memoryRow("started again", stage),
  ];
}

/** Runs everything with so many VMs. */
export async function measure(stage: Stage, vms: number): Promise<readonly Row[]> {
  const empty = memoryRow("at rest, empty", stage);
  const beforeFilling = await read(stage);
  const fillMs = await stage.vms.create(vms);
  const filling = await read(stage);
  await pass(REST_MS);
  const filled = memoryRow("after filling", stage);
  const rest = await measureRest(stage);
  const singles = await measureSingles(stage, vms);
  const plugs = await measureBurst(stage, { what: "burst", vms }, () => stage.vms.plugAll(vms));
  await pass(REST_MS);
  const burst = memoryRow("after the burst", stage);
  const unplugging = { what: "burst of unplugs", vms };
  const unplugs = await measureBurst(stage, unplugging, () => stage.vms.unplugAll(vms));
  await pass(REST_MS);
  const after = memoryRow("after both bursts", stage);
  return [
    ["filling", `${(fillMs / 1000).toFixed(1)} s, ${ms(fillMs / vms)} each`],
    ...cpuRows("filling", { before: beforeFilling, after: filling, among: vms }),
    empty,
    filled,
    burst,
    after,
    ...rest,
    ...singles,
    ...plugs,
    ...unplugs,
    ...(await measureStarts(stage)),
  ];
}
