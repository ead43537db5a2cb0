// SPDX-License-Identifier: Apache-2.0
// Writes without changes: no new revision and no event, as in Kubernetes; numbers beyond JavaScript's range stay exact.
import { STRICT } from "@patchbay/apiserver/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Body, type Harness, startHarness, widgetDefinition } from "../harness.ts";

const NAMESPACE = "/api/v1/namespaces/default";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS = "/apis/widgets.test/v1/namespaces/default/widgets";

const POD = {
  metadata: { name: "one" },
  spec: { nodeName: "n", containers: [{ name: "c", image: "i:1", ports: [{ containerPort: 1 }] }] },
};
const SERVICE = { metadata: { name: "one" }, spec: { clusterIP: "None", ports: [{ port: 1 }] } };
const RULES = [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }];

/** Objects of several kinds, each with a field that only its server sets. */
const KINDS = [
  { path: `${NAMESPACE}/configmaps`, object: { metadata: { name: "one" }, data: { a: "<1>" } } },
  { path: `${NAMESPACE}/pods`, object: POD },
  { path: `${NAMESPACE}/services`, object: SERVICE },
  { path: "/api/v1/nodes", object: { metadata: { name: "one" } } },
  {
    path: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    object: { metadata: { name: "one" }, rules: RULES },
  },
  {
    path: WIDGETS,
    object: {
      apiVersion: "widgets.test/v1",
      kind: "Widget",
      metadata: { name: "one" },
      spec: { size: 1 },
    },
  },
];

/** Ways to write the current state. */
const WRITES = [
  { how: "PUT of what was read", method: "PUT", of: (read: Body) => read },
  {
    how: "PUT without the fields that the server sets",
    method: "PUT",
    of: (read: Body, { metadata }: { metadata: object }) => ({
      ...read,
      metadata: { ...metadata, resourceVersion: read.metadata.resourceVersion },
    }),
  },
  { how: "merge patch", type: "application/merge-patch+json", of: () => ({}) },
  { how: "JSON patch", type: "application/json-patch+json", of: () => [] },
  {
    how: "merge patch that removes a missing label",
    type: "application/merge-patch+json",
    of: () => ({ metadata: { labels: { none: null } } }),
  },
];

const SERVERS = [
  { strict: false, options: {} },
  { strict: true, options: { extensions: STRICT } },
];

describe.each(SERVERS)("strict: $strict", ({ options }) => {
  let api: Harness;

  beforeAll(async () => {
    api = await startHarness(options);
    const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    await api.post(DEFINITIONS, widgetDefinition("widgets.test", open));
    for (const { path, object } of KINDS) await api.post(path, object);
  });
  afterAll(async () => {
    await api.close();
  });

  const rows = KINDS.flatMap((kind) =>
    ["", "/status"].flatMap((part) =>
      WRITES.map((write) => ({ ...kind, part, ...write, what: `${kind.path}${part}` })),
    ),
  ).filter(({ path, part }) => part === "" || /pods|nodes|widgets/.test(path));

  test.each(rows)("$how of $what changes nothing", async (row) => {
    const { path, part, method = "PATCH", type, of, object } = row;
    const { body: before } = await api.get(`${path}/one`);
    const { code, text, body } = await api.ask(method, `${path}/one${part}`, {
      body: of(before, object),
      ...(type === undefined ? {} : { type }),
    });
    expect({ code, text }).toMatchObject({ code: 200 });
    expect(body.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
    const { body: after } = await api.get(`${path}/one`);
    expect(after).toEqual(before);
  });

  test("preserves a number that JavaScript cannot represent, and rewrites it unchanged", async () => {
    const size = "9223372036854775807";
    const body = `{"apiVersion":"widgets.test/v1","kind":"Widget","metadata":{"name":"large"},"spec":{"size":${size}}}`;
    const made = await api.ask("POST", WIDGETS, { body });
    expect(made.text).toContain(`"size":${size}`);
    const type = "application/merge-patch+json";
    const status = await api.ask("PATCH", `${WIDGETS}/large/status`, {
      body: `{"status":{"seen":${size}}}`,
      type,
    });
    expect(status.text).toContain(`"seen":${size}`);
  });
});
