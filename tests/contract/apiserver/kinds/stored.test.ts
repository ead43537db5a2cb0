// SPDX-License-Identifier: Apache-2.0
// Objects older than a rule: they can be changed and deleted, and the rule applies to new parts.
import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const PODS = "/api/v1/namespaces/default/pods";
const directory = mkdtempSync(join(tmpdir(), "patchbay-stored-"));
const storePath = join(directory, "store.sqlite");
let api: Harness;

/** A volume of two sources, stored as if before the rule. */
function makeAmbiguous(): void {
  const database = new DatabaseSync(storePath);
  const one = '"emptyDir":{}';
  const two = `${one},"image":{"reference":"i:1"}`;
  database.exec(`UPDATE revisions SET text = replace(text, '${one}', '${two}')`);
  database.close();
}

beforeAll(async () => {
  api = await startHarness({ storePath });
  const containers = [{ name: "c", image: "i:1" }];
  const spec = { containers, volumes: [{ name: "v", emptyDir: {} }] };
  const labels = { app: "a" };
  await api.post(PODS, { metadata: { name: "a", finalizers: ["test.io/held"] }, spec });
  const template = { metadata: { labels }, spec };
  const selector = { matchLabels: labels };
  await api.post(DEPLOYMENTS, { metadata: { name: "d" }, spec: { selector, template } });
  await api.close();
  makeAmbiguous();
  api = await startHarness({ storePath });
});
afterAll(async () => {
  await api.close();
  rmSync(directory, { recursive: true });
});

test("a pod from an older version updates its status and ends", async () => {
  const running = await api.patch(`${PODS}/a/status`, { status: { phase: "Running" } });
  const image = { reference: "i:1" };
  expect(running.body.spec["volumes"]).toContainEqual({ name: "v", emptyDir: {}, image });
  await api.delete(`${PODS}/a?gracePeriodSeconds=0`);
  await api.patch(`${PODS}/a`, { metadata: { finalizers: null } });
  expect((await api.ask("GET", `${PODS}/a`)).code).toBe(404);
});

test("scales a template and rejects a second two-source volume beside the first", async () => {
  await api.patch(`${DEPLOYMENTS}/d`, { spec: { replicas: 3 } });
  const volumes = [{ name: "w", emptyDir: {}, image: { reference: "i:1" } }];
  const type = "application/strategic-merge-patch+json";
  const body = { spec: { template: { spec: { volumes } } } };
  const answer = await api.ask("PATCH", `${DEPLOYMENTS}/d`, { body, type });
  expect(answer.code).toBe(422);
  expect(answer.body.details.causes.map(({ field }) => field)).toEqual([
    "spec.template.spec.volumes[1].image",
  ]);
});
