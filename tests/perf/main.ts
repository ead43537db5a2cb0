// SPDX-License-Identifier: Apache-2.0
// Benchmarks: prints tables, judges nothing. `npm run perf [ROUNDS [ROUNDS_AFTER_A_REST]]`, `npm run perf ports
// [ROUNDS]`, `npm run perf boot [ROUNDS]`, `npm run perf parallel [COUNT...]`, `npm run perf throughput [ROUNDS]`, `npm
// run perf control-plane [VMS...]`, `npm run perf takeover [VMS]`, `npm run perf cni [PODS]`, `npm run perf panel
// [VMS...]`, `npm run perf migration [MIB...]`, `npm run perf caches [VMS]` or `npm run perf apiserver [SECTION...]`.
import { measureApiServer } from "./apiserver/apiserver.ts";
import { measureBoots } from "./boot/boot.ts";
import { measureCaches } from "./caches.ts";
import { measureCni } from "./cni/cni.ts";
import { measureControlPlane } from "./control-plane/control-plane.ts";
import { measureTakeover } from "./control-plane/takeover.ts";
import { measureMigrations } from "./migration.ts";
import { measureMachine } from "./one-machine.ts";
import { measurePanel } from "./panel.ts";
import { measureParallel } from "./parallel.ts";
import { measurePorts } from "./ports.ts";
import { measureWatches } from "./watches.ts";
import { measureDatapaths } from "./throughput/datapaths.ts";
import { measureLinks } from "./throughput/links.ts";

const DEFAULT_ROUNDS = 20;
/** Fewer rounds give an unstable median. */
const DEFAULT_HOTPLUGS = 200;
/** A start takes longer than a hotplug and varies less. */
const DEFAULT_STARTS = 3;
/** VMs that are plugged concurrently. */
const DEFAULT_COUNTS = [1, 8, 32];
const DEFAULT_VMS = [100, 1000, 10_000];
/** Pods of a starting node; a kubelet's default limit is 110, often raised. */
const DEFAULT_PODS = 150;
/** VMs in the panel, with four NICs each. */
const DEFAULT_SHOWN = [10, 500];
const [first = "", ...rest] = process.argv.slice(2);

if (first === "apiserver") {
  await measureApiServer(rest);
} else if (first === "caches") {
  measureCaches(Number(rest[0] ?? DEFAULT_VMS.at(-1)));
} else if (first === "ports") {
  await measurePorts(Number(rest[0] ?? DEFAULT_STARTS));
} else if (first === "watches") {
  await measureWatches();
} else if (first === "boot") {
  await measureBoots(Number(rest[0] ?? DEFAULT_STARTS));
} else if (first === "migration") {
  await measureMigrations(rest.length === 0 ? undefined : rest.map(Number));
  process.exit();
} else if (first === "panel") {
  await measurePanel(rest.length === 0 ? DEFAULT_SHOWN : rest.map(Number));
} else if (first === "parallel") {
  await measureParallel(rest.length === 0 ? DEFAULT_COUNTS : rest.map(Number));
} else if (first === "cni") {
  await measureCni(Number(rest[0] ?? DEFAULT_PODS));
} else if (first === "control-plane") {
  await measureControlPlane(rest.length === 0 ? DEFAULT_VMS : rest.map(Number));
} else if (first === "takeover") {
  await measureTakeover(Number(rest[0] ?? DEFAULT_VMS.at(-1)));
} else if (first === "throughput") {
  const rounds = Number(rest[0] ?? DEFAULT_ROUNDS);
  await measureLinks(rounds);
  await measureDatapaths(Math.ceil(rounds / 4));
} else if (/^[1-9]\d*$/.test(first) || first === "") {
  await measureMachine({
    backToBack: first === "" ? DEFAULT_HOTPLUGS : Number(first),
    afterRest: Number(rest[0] ?? 0),
  });
} else {
  console.error(
    `unknown benchmark "${first}": a number of rounds, apiserver, boot, caches, cni, control-plane, migration, panel, parallel, ports, takeover, throughput, or nothing`,
  );
  process.exitCode = 2;
}
