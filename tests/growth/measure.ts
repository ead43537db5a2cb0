// SPDX-License-Identifier: Apache-2.0
// Measures all subjects, and prints one line of JSON for each. Runs in its own process, because it counts from the start.
import { countSteps, startCounting } from "./steps.ts";

startCounting();
const { listSubjects } = await import("./subjects.ts");

for (const { name, limit, prepare } of await listSubjects()) {
  const sizes = [limit / 4, limit / 2, limit];
  // The first call fills caches that do not depend on the input.
  const firstCall = await prepare(limit / 4);
  await firstCall();
  const calls = await Promise.all(sizes.map(async (size) => prepare(size)));
  const steps = await countSteps(calls);
  process.stdout.write(`${JSON.stringify({ name, sizes, steps })}\n`);
}
