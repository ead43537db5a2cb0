// SPDX-License-Identifier: Apache-2.0
// Validation and defaults of webhook configurations.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Body, type Harness, startHarness } from "../harness.ts";
import { REGISTRATION, rulesFor, tryConfigure } from "./configuration.ts";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

const URL_OF = { clientConfig: { url: "https://127.0.0.1:1/x" } };
const PATH = `${REGISTRATION}/mutatingwebhookconfigurations`;

function causesOf(body: Body) {
  return body.details.causes.map(({ field, reason }) => `${field} ${reason.slice(10)}`);
}

function service(change: object) {
  return { clientConfig: { service: { namespace: "n", name: "s", ...change } } };
}

test("defaults the fields that a configuration omits", async () => {
  const { body } = await tryConfigure(api, {
    type: "Mutating",
    name: "defaults",
    webhook: service({}),
  });
  expect(body["webhooks" as keyof Body]).toMatchObject([
    {
      failurePolicy: "Fail",
      matchPolicy: "Equivalent",
      namespaceSelector: {},
      objectSelector: {},
      reinvocationPolicy: "Never",
      timeoutSeconds: 10,
      rules: [{ scope: "*" }],
      clientConfig: { service: { port: 443 } },
    },
  ]);
  expect(body.metadata.generation).toBe(1);
  const change = [{ op: "add", path: "/webhooks/0/failurePolicy", value: "Ignore" }];
  const type = "application/json-patch+json";
  const changed = await api.patch(`${PATH}/defaults`, change, type);
  expect(changed.body.metadata.generation).toBe(2);
});

const EACH = "webhooks[0]";

test.each([
  {
    name: "no review versions",
    webhook: { admissionReviewVersions: [] },
    want: ["admissionReviewVersions Required"],
  },
  {
    name: "unknown review versions",
    webhook: { admissionReviewVersions: ["v9"] },
    want: ["admissionReviewVersions Invalid"],
  },
  {
    name: "missing side effects",
    webhook: { sideEffects: undefined },
    want: ["sideEffects Required"],
  },
  {
    name: "unknown side effects",
    webhook: { sideEffects: "Some" },
    want: ["sideEffects NotSupported"],
  },
  { name: "a short name", webhook: { name: "a.b" }, want: ["name Invalid"] },
  { name: "no name", webhook: { name: "" }, want: ["name Required"] },
  {
    name: "too long a timeout",
    webhook: { timeoutSeconds: 31 },
    want: ["timeoutSeconds Invalid"],
  },
  {
    name: "a timeout of zero",
    webhook: { timeoutSeconds: 0 },
    want: ["timeoutSeconds Invalid"],
  },
  {
    name: "an unknown failure policy",
    webhook: { failurePolicy: "Maybe" },
    want: ["failurePolicy NotSupported"],
  },
  {
    name: "an unknown match policy",
    webhook: { matchPolicy: "Maybe" },
    want: ["matchPolicy NotSupported"],
  },
  {
    name: "an unknown reinvocation policy",
    webhook: { reinvocationPolicy: "Maybe" },
    want: ["reinvocationPolicy NotSupported"],
  },
  {
    name: "neither URL nor Service",
    webhook: { clientConfig: {} },
    want: ["clientConfig Required"],
  },
  {
    name: "both a URL and a Service",
    webhook: { clientConfig: { ...URL_OF.clientConfig, ...service({}).clientConfig } },
    want: ["clientConfig Required"],
  },
  {
    name: "plain http",
    webhook: { clientConfig: { url: "http://h/x" } },
    want: ["clientConfig.url Invalid"],
  },
  {
    name: "a user and a query in the URL",
    webhook: { clientConfig: { url: "https://u:p@h/x?q=1" } },
    want: ["clientConfig.url Invalid", "clientConfig.url Invalid"],
  },
  {
    name: "no host in the URL",
    webhook: { clientConfig: { url: "https:///x" } },
    want: ["clientConfig.url Invalid"],
  },
  {
    name: "a fragment in the URL",
    webhook: { clientConfig: { url: "https://h/x#f" } },
    want: ["clientConfig.url Invalid"],
  },
  {
    name: "a Service without a name",
    webhook: service({ name: "" }),
    want: ["clientConfig.service.name Required"],
  },
  {
    name: "a port out of range",
    webhook: service({ port: 70_000 }),
    want: ["clientConfig.service.port Invalid"],
  },
  {
    name: "a path without a slash",
    webhook: service({ path: "x" }),
    want: ["clientConfig.service.path Invalid"],
  },
  {
    name: "an empty segment",
    webhook: service({ path: "/a//b" }),
    want: ["clientConfig.service.path Invalid"],
  },
  {
    name: "a rule without operations",
    webhook: rulesFor(["pods"], { operations: [] }),
    want: ["rules[0].operations Required"],
  },
  {
    name: "an unknown operation",
    webhook: rulesFor(["pods"], { operations: ["GET"] }),
    want: ["rules[0].operations[0] NotSupported"],
  },
  {
    name: "all operations and an explicit operation",
    webhook: rulesFor(["pods"], { operations: ["*", "CREATE"] }),
    want: ["rules[0].operations Invalid"],
  },
  {
    name: "all groups and an explicit group",
    webhook: rulesFor(["pods"], { apiGroups: ["*", "a"] }),
    want: ["rules[0].apiGroups Invalid"],
  },
  {
    name: "all versions and an explicit version",
    webhook: rulesFor(["pods"], { apiVersions: ["*", "v1"] }),
    want: ["rules[0].apiVersions Invalid"],
  },
  { name: "no resources", webhook: rulesFor([]), want: ["rules[0].resources Required"] },
  {
    name: "all resources and an explicit resource",
    webhook: rulesFor(["*", "pods"]),
    want: ["rules[0].resources Invalid"],
  },
  {
    name: "all resources with subresources and an explicit resource",
    webhook: rulesFor(["*/*", "pods"]),
    want: ["rules[0].resources Invalid"],
  },
  {
    name: "all subresources and an explicit one",
    webhook: rulesFor(["pods/*", "pods/status"]),
    want: ["rules[0].resources[1] Invalid"],
  },
  {
    name: "an unknown scope",
    webhook: rulesFor(["pods"], { scope: "World" }),
    want: ["rules[0].scope NotSupported"],
  },
  {
    name: "an invalid selector",
    webhook: { objectSelector: { matchExpressions: [{ key: "k", operator: "Is" }] } },
    want: ["objectSelector.matchExpressions[0].operator Invalid"],
  },
  {
    name: "match conditions that cannot be evaluated",
    webhook: {
      matchConditions: [
        { name: "c", expression: "object.spec ==" },
        { name: "c", expression: "true" },
        { name: "", expression: "" },
        { name: "an invalid name", expression: "size(object)" },
      ],
    },
    want: [
      "matchConditions[0].expression Invalid",
      "matchConditions[1].name Duplicate",
      "matchConditions[2].expression Required",
      "matchConditions[2].name Required",
      "matchConditions[3].expression Invalid",
      "matchConditions[3].name Invalid",
    ],
  },
])("rejects a webhook with $name", async ({ webhook, want }) => {
  const { code, body } = await tryConfigure(api, {
    type: "Mutating",
    name: "refused",
    webhook: { ...URL_OF, ...webhook },
  });
  expect(code).toBe(422);
  expect(causesOf(body)).toEqual(want.map((cause) => `${EACH}.${cause}`));
});

test("rejects two webhooks with one name", async () => {
  const webhook = {
    name: "a.test.io",
    ...URL_OF,
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
  };
  const { code, body } = await api.post(PATH, {
    metadata: { name: "twice" },
    webhooks: [webhook, webhook],
  });
  expect([code, causesOf(body)]).toEqual([422, ["webhooks[1].name Duplicate"]]);
});
