// SPDX-License-Identifier: Apache-2.0
// Random bodies are answered with a Status and cause no internal error; rejected requests write nothing.
import { VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROUTES } from "../routes/table.ts";
import { startBench, type Bench } from "../testing/bench.ts";
import { aVm, aVmi } from "../testing/objects.ts";

const GROUP_PATH = "/apis/subresources.kubevirt.io/v1";
/** Members that some request has. */
const NAMES = ["name", "paused", "gracePeriod", "gracePeriodSeconds", "dryRun", "kind", "spec"];

let store: FakeStore;
let bench: Bench;

beforeAll(async () => {
  bench = await startBench(() => store);
});

afterAll(async () => {
  await bench.stop();
});

const anyBody = fc.oneof(fc.jsonValue(), fc.dictionary(fc.constantFrom(...NAMES), fc.jsonValue()));
const anyRoute = fc.constantFrom(...ROUTES.filter(({ method }) => method === "put"));

test("random request bodies", async () => {
  await fc.assert(
    fc.asyncProperty(anyRoute, anyBody, async ({ path }, body) => {
      store = createFakeStore();
      store.put(VIRTUAL_MACHINES, aVm({ runStrategy: "Manual" }));
      store.put(VIRTUAL_MACHINE_INSTANCES, aVmi());
      const at = path.replace("{namespace}", "ns").replace("{name}", "vm");
      const text = JSON.stringify(body);
      const { code, body: status } = await bench.send("PUT", `${GROUP_PATH}/${at}`, { text });
      expect(status).toBeTypeOf("object");
      expect(code).toBeLessThan(500);
      const writes = store.calls.filter((call) => !call.startsWith("get"));
      expect(code < 400 || writes.length === 0).toBe(true);
    }),
    { numRuns: 300 },
  );
});
