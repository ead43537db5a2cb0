// SPDX-License-Identifier: Apache-2.0
// Benchmarks: prints tables, judges nothing. `npm run perf [ROUNDS]`, or `npm run perf apiserver [SECTION...]`.
import { measureApiServer } from "./apiserver.ts";
import { measureMachine } from "./one-machine.ts";

const DEFAULT_ROUNDS = 20;
const [first = "", ...rest] = process.argv.slice(2);

if (first === "apiserver") {
  await measureApiServer(rest);
} else if (/^[1-9]\d*$/.test(first) || first === "") {
  await measureMachine(first === "" ? DEFAULT_ROUNDS : Number(first));
} else {
  console.error(`unknown benchmark "${first}": a number of rounds, apiserver, or nothing`);
  process.exitCode = 2;
}
