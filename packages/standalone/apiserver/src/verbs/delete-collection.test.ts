// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { forbidden } from "../meta/status.ts";
import { aConfigMap } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  for (const name of ["a", "b", "c"]) {
    await server.put("configmaps", aConfigMap({ name, labels: { first: String(name === "a") } }));
  }
  await server.put("configmaps", aConfigMap({ name: "held", finalizers: ["t.io/a"] }));
  await server.put("configmaps", aConfigMap({ name: "a", namespace: "other" }));
});

afterEach(async () => {
  await server.close();
});

function left(): readonly string[] {
  const stored = server.deps.store.list({ bucket: "/configmaps" });
  return stored.map(({ address, isDeleting }) => {
    const mark = isDeleting ? " (deleting)" : "";
    return `${address.namespace}/${address.name}${mark}`;
  });
}

const HELD = "default/held (deleting)";

test.each([
  { name: "deletes all objects of a namespace", query: "", want: [HELD, "other/a"] },
  {
    name: "deletes objects that match a selector",
    query: "?labelSelector=first%3Dfalse",
    want: ["default/a", "default/held", "other/a"],
  },
  {
    name: "deletes one page",
    query: "?limit=2",
    want: ["default/c", "default/held", "other/a"],
  },
  {
    name: "deletes nothing in a dry run",
    query: "?dryRun=All",
    want: ["default/a", "default/b", "default/c", "default/held", "other/a"],
  },
])("$name", async ({ query, want }) => {
  const answer = await server.send("DELETE", `${MAPS}${query}`);
  expect([answer.code, answer.body["kind"], left()]).toEqual([200, "ConfigMapList", want]);
});

test("applies the options to each object", async () => {
  await server.send("DELETE", MAPS, { body: { propagationPolicy: "Orphan" } });
  const finalizers = ["a", "held"].map(
    (name) => server.stored("configmaps", name)?.metadata.finalizers,
  );
  expect(finalizers).toEqual([["orphan"], ["t.io/a", "orphan"]]);
});

test("rejects invalid options without a deletion", async () => {
  const answer = await server.send("DELETE", MAPS, { body: { propagationPolicy: "Bogus" } });
  expect([answer.code, left().length]).toEqual([422, 5]);
});

test("ignores an object that another client deletes first", async () => {
  server.webhooks.onRequest = async ({ request }) => {
    if (request.name !== "a") return;
    server.webhooks.onRequest = undefined;
    await server.send("DELETE", `${MAPS}/a`);
  };
  const answer = await server.send("DELETE", MAPS);
  expect([answer.code, left()]).toEqual([200, [HELD, "other/a"]]);
});

test("returns the rejection of one object", async () => {
  server.webhooks.onRequest = ({ request }) => {
    if (request.name === "b") {
      throw forbidden({ group: "", resource: "configmaps", kind: "ConfigMap" }, "b", "no");
    }
  };
  const answer = await server.send("DELETE", MAPS);
  expect([answer.code, server.stored("configmaps", "b") === undefined]).toEqual([403, false]);
});

test("deletes at most 16 objects at a time", async () => {
  const names = Array.from({ length: 50 }, (_none, index) => `n${String(index)}`);
  await server.put("configmaps", ...names.map((name) => aConfigMap({ name })));
  let current = 0;
  let most = 0;
  server.webhooks.onRequest = async () => {
    current += 1;
    most = Math.max(most, current);
    await setImmediate();
    current -= 1;
  };
  await server.send("DELETE", MAPS);
  expect([most, left()]).toEqual([16, [HELD, "other/a"]]);
});
