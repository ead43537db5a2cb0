// SPDX-License-Identifier: Apache-2.0
// A number in a request that is slow to parse.
import { afterAll, beforeAll, expect, test } from "vitest";
import { startExtension } from "../../contract/apiserver/aggregation/extension-server.ts";
import { type Harness, startHarness } from "../../contract/apiserver/harness.ts";

/** Limit of processor time for one request: quadratic parsing of the longest number once took 800 ms. */
const REQUEST_MS = 250;

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});
afterAll(() => api.close());

test("attack 84: a timeout of 30,000 digits does not block other clients", async () => {
  await using extension = await startExtension(api);
  await api.ask("GET", extension.path);
  const before = process.threadCpuUsage();
  const answer = await api.ask("GET", `${extension.path}?timeout=${"1".repeat(30_000)}`);
  const used = process.threadCpuUsage(before);
  // It was forwarded, because the extension accepts headers of 16 KiB.
  expect(answer.code).toBe(431);
  expect((used.user + used.system) / 1000).toBeLessThan(REQUEST_MS);
});
