// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import { json, pod, startScriptedServer } from "../testing/scripted-server.ts";
import { parseWarnings } from "./warnings.ts";

const cases: readonly {
  name: string;
  given: string | readonly string[] | undefined;
  want: string[];
}[] = [
  { name: "no header", given: undefined, want: [] },
  { name: "one", given: '299 - "unknown field \\"spec.x\\""', want: ['unknown field "spec.x"'] },
  { name: "two in one header", given: '299 - "a, b", 299 kube "c"', want: ["a, b", "c"] },
  { name: "two headers", given: ['299 - "a"', '299 - "b"'], want: ["a", "b"] },
  { name: "another code, or no text", given: ['199 - "a"', "299 - a"], want: [] },
];
test.each(cases)("warnings of $name", ({ given, want }) => {
  expect(parseWarnings(given)).toEqual(want);
});

test("a client logs what the server warns of, once an hour", async () => {
  await using server = await startScriptedServer((response, seen) => {
    response.setHeader("warning", ['299 - "unknown field \\"spec.x\\""', '299 - "old"']);
    json(200, { metadata: { name: "p" } })(response, seen);
  });
  const logger = createFakeLogger();
  const clock = createFakeClock();
  const client = createKubeClient(server.config, { logger, clock });
  const find = (): Promise<unknown> => client.store.find(PODS, { namespace: "ns", name: "p" });
  for (let i = 0; i < 5; i += 1) await find();
  const said = (): readonly unknown[] => logger.lines.map(({ fields }) => fields["reason"]);
  expect(said()).toEqual(['unknown field "spec.x"', "old"]);
  expect(logger.lines[0]).toMatchObject({
    level: "warn",
    fields: { method: "GET", path: "/api/v1/namespaces/ns/pods/p" },
  });
  await clock.advance(3_600_000);
  await find();
  expect(said()).toHaveLength(4);
  await client.close();
});

test("what a server warns of a dry run is not logged: nothing is made", async () => {
  await using server = await startScriptedServer((response, seen) => {
    response.setHeader("warning", '299 - "spec.volumes[2].image is dropped"');
    json(201, { metadata: { name: "p" } })(response, seen);
  });
  const logger = createFakeLogger();
  const client = createKubeClient(server.config, { logger, clock: createFakeClock() });
  await client.store.create(PODS, pod, { dryRun: true });
  expect(logger.lines).toEqual([]);
  await client.store.create(PODS, pod);
  expect(logger.lines).toHaveLength(1);
  await client.close();
});
