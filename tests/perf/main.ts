// SPDX-License-Identifier: Apache-2.0
// Benchmarks: prints tables, judges nothing. `npm run perf [ROUNDS]`, `npm run perf ports [ROUNDS]`,
// `npm run perf boot [ROUNDS]` or `npm run perf apiserver [SECTION...]`.
import { measureApiServer } from "./apiserver/apiserver.ts";
import { measureBoots } from "./boot/boot.ts";
import { measureMachine } from "./one-machine.ts";
import { measurePorts } from "./ports.ts";

const DEFAULT_ROUNDS = 20;
/** A start takes longer than a hotplug, and differs less. */
const DEFAULT_STARTS = 3;
const [first = "", ...rest] = process.argv.slice(2);

if (first === "apiserver") {
  await measureApiServer(rest);
} else if (first === "ports") {
  await measurePorts(Number(rest[0] ?? DEFAULT_STARTS));
} else if (first === "boot") {
  await measureBoots(Number(rest[0] ?? DEFAULT_STARTS));
} else if (/^[1-9]\d*$/.test(first) || first === "") {
  await measureMachine(first === "" ? DEFAULT_ROUNDS : Number(first));
} else {
  console.error(
    `unknown benchmark "${first}": a number of rounds, apiserver, boot, ports, or nothing`,
  );
  process.exitCode = 2;
}
