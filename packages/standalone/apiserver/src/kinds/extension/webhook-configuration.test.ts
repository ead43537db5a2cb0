// SPDX-License-Identifier: Apache-2.0
// Refusals and defaults of configurations of webhooks.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { refusals, withDefaults } from "../../testing/judge.ts";
import { WEBHOOK_CONFIGURATION_KINDS } from "./webhook-configuration.ts";

const NOT_PORT = "port is not valid: must be between 1 and 65535, inclusive";
const service = { namespace: "n", name: "s" };
const [MUTATING, VALIDATING] = WEBHOOK_CONFIGURATION_KINDS;

const rule = { operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods"] };
const url = "https://h";
const hook = {
  name: "a.x.io",
  admissionReviewVersions: ["v1"],
  sideEffects: "None",
  clientConfig: { url },
  rules: [rule],
};

/** Causes for which a configuration of webhooks is refused. */
function judged(...webhooks: readonly Fields[]): readonly string[] {
  return VALIDATING === undefined ? ["no kind"] : refusals(VALIDATING, { webhooks });
}

test.each([
  {
    kind: MUTATING,
    given: { rules: [{}, { scope: "Cluster" }], clientConfig: { service: {} } },
    want: {
      failurePolicy: "Fail",
      matchPolicy: "Equivalent",
      namespaceSelector: {},
      objectSelector: {},
      timeoutSeconds: 10,
      reinvocationPolicy: "Never",
      rules: [{ scope: "*" }, { scope: "Cluster" }],
      clientConfig: { service: { port: 443 } },
    },
  },
  {
    kind: VALIDATING,
    given: { failurePolicy: "Ignore", timeoutSeconds: 1, clientConfig: { url } },
    want: {
      failurePolicy: "Ignore",
      matchPolicy: "Equivalent",
      namespaceSelector: {},
      objectSelector: {},
      timeoutSeconds: 1,
      clientConfig: { url },
    },
  },
])("completes a webhook of a $kind.kind", ({ kind, given, want }) => {
  const object = kind === undefined ? {} : withDefaults(kind, { webhooks: [given] });
  expect(object).toHaveProperty("webhooks", [want]);
});

const NO_URL_SCHEME = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
const NO_HOST = "host must be specified; desired format: https://host[/path]";

test.each([
  { url: "https://h:1/a/b", want: [] },
  { url: "http://h", want: [`Invalid value: "http": ${NO_URL_SCHEME}`] },
  { url: "h", want: [`Invalid value: "": ${NO_URL_SCHEME}`] },
  {
    url: "mailto:a",
    want: [`Invalid value: "mailto": ${NO_URL_SCHEME}`, `Invalid value: "": ${NO_HOST}`],
  },
  { url: "https://", want: [`Invalid value: "": ${NO_HOST}`] },
  { url: "https:///h", want: [`Invalid value: "": ${NO_HOST}`] },
  {
    url: "https://u@h",
    want: ['Invalid value: "u": user information is not permitted in the URL'],
  },
  {
    url: "https://u:p@h",
    want: ['Invalid value: "u:p": user information is not permitted in the URL'],
  },
  {
    url: "https://:p@h/?a=b#c",
    want: [
      'Invalid value: "p": user information is not permitted in the URL',
      'Invalid value: "c": fragments are not permitted in the URL',
      'Invalid value: "a=b": query parameters are not permitted in the URL',
    ],
  },
])("a webhook at $url: $want", ({ url: given, want }) => {
  const causes = judged({ ...hook, clientConfig: { url: given } });
  expect(causes).toEqual(want.map((cause) => `webhooks[0].clientConfig.url: ${cause}`));
});

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "a path", given: { service: { ...service, path: "/a/b.c/" } }, want: [] },
  { name: "the root", given: { service: { ...service, path: "/" } }, want: [] },
  {
    name: "an empty path segment",
    given: { service: { ...service, path: "//" } },
    want: ['.service.path: Invalid value: "//": segment[0] may not be empty'],
  },
  {
    name: "an empty part, and no slash at the beginning",
    given: { service: { ...service, path: "a//b" } },
    want: [
      ".service.path: Invalid value: \"a//b\": must start with a '/'",
      '.service.path: Invalid value: "a//b": segment[1] may not be empty',
    ],
  },
  {
    name: "an invalid path segment",
    given: { service: { ...service, path: "/a/B" } },
    want: [
      expect.stringMatching(
        /^\.service\.path: Invalid value: "\/a\/B": segment\[1\]: a lowercase RFC 1123/,
      ) as string,
    ],
  },
  {
    name: "no name",
    given: { service: { port: 70_000 } },
    want: [
      ".service.name: Required value: service name is required",
      ".service.namespace: Required value: service namespace is required",
      `.service.port: Invalid value: 70000: ${NOT_PORT}`,
    ],
  },
  {
    name: "neither",
    given: {},
    want: [": Required value: exactly one of url or service is required"],
  },
  {
    name: "both",
    given: { url, service },
    want: [": Required value: exactly one of url or service is required"],
  },
])("a webhook at a Service with $name", ({ given, want }) => {
  const causes = judged({ ...hook, clientConfig: given });
  expect(causes.map((cause) => cause.replace(/^webhooks\[0\]\.clientConfig/, ""))).toEqual(want);
});

const condition = { name: "c", expression: "true" };

test.each<{ name: string; given: Fields; want: readonly unknown[] }>([
  { name: "all", given: {}, want: [] },
  {
    name: "nothing",
    given: { name: "", sideEffects: undefined, admissionReviewVersions: [], rules: [] },
    want: [
      ".admissionReviewVersions: Required value: must specify one of v1, v1beta1",
      ".name: Required value",
      ".sideEffects: Required value: must specify one of None, NoneOnDryRun",
    ],
  },
  {
    name: "a short name",
    given: { name: "x.io" },
    want: [
      '.name: Invalid value: "x.io": should be a domain with at least three segments separated by dots',
    ],
  },
  {
    name: "an invalid name",
    given: { name: "A.x.io" },
    want: [expect.stringMatching(/^\.name: Invalid value: "A\.x\.io": a lowercase/)],
  },
  {
    name: "a known and an unknown review version",
    given: { admissionReviewVersions: ["v1beta1", "v9", "v9", "1"] },
    want: [
      '.admissionReviewVersions[2]: Invalid value: "v9": duplicate version',
      expect.stringMatching(/^\.admissionReviewVersions\[3\]: Invalid value: "1": a DNS-1035/),
    ],
  },
  {
    name: "only unknown review versions",
    given: { admissionReviewVersions: ["v9", 5] },
    want: [
      '.admissionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1',
    ],
  },
  {
    name: "unsupported values",
    given: {
      failurePolicy: "x",
      matchPolicy: "x",
      reinvocationPolicy: "x",
      sideEffects: "Some",
    },
    want: [
      '.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"',
      '.matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"',
      '.reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"',
      '.sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ],
  },
  { name: "the longest time", given: { timeoutSeconds: 30 }, want: [] },
  { name: "the shortest time", given: { timeoutSeconds: 1 }, want: [] },
  {
    name: "too long a timeout",
    given: { timeoutSeconds: 31 },
    want: [
      ".timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ],
  },
  {
    name: "too short a timeout",
    given: { timeoutSeconds: 0 },
    want: [".timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"],
  },
  {
    name: "invalid selectors",
    given: {
      namespaceSelector: { matchExpressions: [{ key: "a", operator: "Like" }] },
      objectSelector: { matchLabels: { "a b": "c d" } },
    },
    want: [
      '.namespaceSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
      expect.stringMatching(/^\.objectSelector\.matchLabels: Invalid value: "a b": name part/),
      expect.stringMatching(/^\.objectSelector\.matchLabels: Invalid value: "c d": a valid label/),
    ],
  },
  {
    name: "64 conditions",
    given: {
      matchConditions: Array.from({ length: 64 }, (_, index) => ({
        ...condition,
        name: `c${String(index)}`,
      })),
    },
    want: [],
  },
  {
    name: "65 conditions",
    given: { matchConditions: Array.from({ length: 65 }, () => ({})) },
    want: [".matchConditions: Too many: 65: must have at most 64 items"],
  },
  {
    name: "invalid match conditions",
    given: {
      matchConditions: [condition, { name: "", expression: " " }, { name: "c", expression: "1 +" }],
    },
    want: [
      ".matchConditions[1].expression: Required value",
      ".matchConditions[1].name: Required value",
      expect.stringMatching(/^\.matchConditions\[2\]\.expression: Invalid value: "1 \+": /),
      '.matchConditions[2].name: Duplicate value: "c"',
    ],
  },
  {
    name: "match conditions with missing and invalid names",
    given: {
      matchConditions: [
        { expression: "true" },
        { expression: "true" },
        { ...condition, name: "a b" },
      ],
    },
    want: [
      ".matchConditions[0].name: Required value",
      ".matchConditions[1].name: Required value",
      expect.stringMatching(/^\.matchConditions\[2\]\.name: Invalid value: "a b": name part/),
    ],
  },
])("a webhook with $name", ({ given, want }) => {
  const causes = judged({ ...hook, ...given });
  expect(causes.map((cause) => cause.replace(/^webhooks\[0\]/, ""))).toEqual(want);
});

test("rejects two webhooks with one name, and reports missing names instead of duplicates", () => {
  const twice = judged(hook, { ...hook, name: "b.x.io" }, hook);
  expect(twice).toEqual(['webhooks[2].name: Duplicate value: "a.x.io"']);
  expect(judged({ ...hook, name: "" }, { ...hook, name: "" })).toEqual(
    [0, 1].map((index) => `webhooks[${String(index)}].name: Required value`),
  );
});

const NOT_BESIDE = (what: string, list: readonly string[], others: string) =>
  `Invalid value: ${JSON.stringify(list)}: if '${what}' is present, must not specify other ${others}`;

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  {
    name: "everything",
    given: { operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"] },
    want: [],
  },
  {
    name: "nothing",
    given: { operations: [], apiGroups: [], apiVersions: [], resources: [], scope: "x" },
    want: [
      "operations: Required value",
      "apiGroups: Required value",
      "apiVersions: Required value",
      "resources: Required value",
      'scope: Unsupported value: "x": supported values: "*", "Cluster", "Namespaced"',
    ],
  },
  {
    name: "wildcards beside explicit values",
    given: {
      operations: ["*", "CREATE"],
      apiGroups: ["*", ""],
      apiVersions: ["*", "v1"],
      resources: ["pods", "*/*"],
    },
    want: [
      `operations: ${NOT_BESIDE("*", ["*", "CREATE"], "operations")}`,
      `apiGroups: ${NOT_BESIDE("*", ["*", ""], "API groups")}`,
      `apiVersions: ${NOT_BESIDE("*", ["*", "v1"], "API versions")}`,
      `resources: ${NOT_BESIDE("*/*", ["pods", "*/*"], "resources")}`,
    ],
  },
  {
    name: "an unknown operation and empty values",
    given: { operations: ["CREATE", "READ"], apiVersions: ["v1", ""], resources: ["", "a"] },
    want: [
      'operations[1]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
      "apiVersions[1]: Required value",
      "resources[0]: Required value",
    ],
  },
  {
    name: "all resources, and subresources of some",
    given: { resources: ["*", "pods/log"] },
    want: [],
  },
  {
    name: "all resources and an explicit resource",
    given: { resources: ["*", "pods"] },
    want: [`resources: ${NOT_BESIDE("*", ["*", "pods"], "resources without subresources")}`],
  },
  {
    name: "subresources that a wildcard already covers",
    given: { resources: ["pods/*", "pods/log", "*/scale", "a/scale", "a/b", "b"] },
    want: [
      "resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
      "resources[3]: Invalid value: \"a/scale\": if '*/scale' is present, must not specify a/scale",
    ],
  },
])("a rule with $name", ({ given, want }) => {
  const causes = judged({ ...hook, rules: [rule, { ...rule, ...given }] });
  expect(causes.map((cause) => cause.replace(/^webhooks\[0\]\.rules\[1\]\./, ""))).toEqual(want);
});
