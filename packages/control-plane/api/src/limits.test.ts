// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { customResourceDefinitions } from "./crds/definitions.ts";
import {
  buildKindLimits,
  collectProblems,
  cutText,
  findBeyondLimit,
  findSpecBeyondLimit,
  LIMIT_GROUPS,
  METADATA_MAX_BYTES,
  PROBLEMS_MAX,
  runChecks,
} from "./limits.ts";

function many(count: number, item: unknown = {}): readonly unknown[] {
  return Array.from({ length: count }, () => item);
}

function describeSpec(kind: string, spec: object): string {
  const problem = findSpecBeyondLimit(kind, spec);
  return problem === undefined ? "" : `${problem.field} ${String(problem.max)}`;
}

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly allowed: object;
  readonly refused: object;
  readonly want: string;
}

function ofTemplate(spec: object): object {
  return { template: { spec } };
}

const ANNOTATIONS = { a: "x".repeat(METADATA_MAX_BYTES - 2) };

describe("a specification of a kind of the project", () => {
  test.each<Row>([
    {
      name: "interfaces",
      kind: "VirtualMachineInstance",
      allowed: { domain: { devices: { interfaces: many(64) } } },
      refused: { domain: { devices: { interfaces: many(65) } } },
      want: "spec.domain.devices.interfaces 64",
    },
    {
      name: "networks of a template",
      kind: "VirtualMachine",
      allowed: ofTemplate({ networks: many(64) }),
      refused: ofTemplate({ networks: many(65) }),
      want: "spec.template.spec.networks 64",
    },
    {
      name: "annotations of a template, in bytes",
      kind: "VirtualMachine",
      allowed: { template: { metadata: { annotations: { ...ANNOTATIONS, b: "" } } } },
      refused: { template: { metadata: { annotations: { ...ANNOTATIONS, b: "ä" } } } },
      want: `spec.template.metadata.annotations ${String(METADATA_MAX_BYTES)}`,
    },
    {
      name: "a list without a number of its own",
      kind: "VirtualMachineInstance",
      allowed: { tolerations: many(256) },
      refused: { tolerations: many(257) },
      want: "spec.tolerations 256",
    },
    {
      name: "a list in a field without a schema",
      kind: "VirtualMachineInstance",
      allowed: { affinity: { nodeAffinity: { terms: many(256) } } },
      refused: { affinity: { nodeAffinity: { terms: many(257) } } },
      want: "spec.affinity.nodeAffinity.terms 256",
    },
    {
      name: "a text of characters outside the basic plane",
      kind: "VirtualMachineInstance",
      allowed: { hostname: "\u{1f600}".repeat(16_384) },
      refused: { hostname: "\u{1f600}".repeat(16_385) },
      want: "spec.hostname 16384",
    },
    {
      name: "a key of a map",
      kind: "VirtualMachineInstance",
      allowed: { nodeSelector: { ["k".repeat(16_384)]: "" } },
      refused: { nodeSelector: { ["k".repeat(16_385)]: "" } },
      want: `spec.nodeSelector.${"k".repeat(128)}… 16384`,
    },
    {
      name: "a grace period",
      kind: "VirtualMachineInstance",
      allowed: { terminationGracePeriodSeconds: 2_000_000_000 },
      refused: { terminationGracePeriodSeconds: 9e12 },
      want: "spec.terminationGracePeriodSeconds 2000000000",
    },
    {
      name: "a source",
      kind: "DataVolume",
      allowed: { source: { http: { url: "x".repeat(16_384) } } },
      refused: { source: { http: { url: "x".repeat(16_385) } } },
      want: "spec.source.http.url 16384",
    },
    {
      name: "a preferred grace period",
      kind: "VirtualMachinePreference",
      allowed: { preferredTerminationGracePeriodSeconds: 2_000_000_000 },
      refused: { preferredTerminationGracePeriodSeconds: 2_000_000_001 },
      want: "spec.preferredTerminationGracePeriodSeconds 2000000000",
    },
    {
      name: "the configuration of a network",
      kind: "NetworkAttachmentDefinition",
      allowed: { config: "x".repeat(65_536) },
      refused: { config: "x".repeat(65_537) },
      want: "spec.config 65536",
    },
  ])("$name", ({ kind, allowed, refused, want }) => {
    expect(describeSpec(kind, allowed)).toBe("");
    expect(describeSpec(kind, refused)).toBe(want);
  });

  test.each(["KubeVirt", "MigrationPolicy", "constructor"])("%s has no limits", (kind) => {
    expect(findSpecBeyondLimit(kind, { list: many(5000) })).toBeUndefined();
  });
});

describe("an object of a built-in kind", () => {
  const CONTAINER = { name: "c" };
  test.each<Omit<Row, "allowed"> & { readonly allowed?: object }>([
    ...["volumes", "containers", "initContainers", "imagePullSecrets"].map((list) => ({
      name: list,
      kind: "Pod",
      allowed: { spec: { [list]: many(64) } },
      refused: { spec: { [list]: many(65) } },
      want: `spec.${list} 64`,
    })),
    {
      name: "sources of a projected volume",
      kind: "Pod",
      allowed: { spec: { volumes: [{}, { projected: { sources: many(64) } }] } },
      refused: { spec: { volumes: [{}, { projected: { sources: many(65) } }] } },
      want: "spec.volumes[1].projected.sources 64",
    },
    {
      name: "variables",
      kind: "Pod",
      allowed: { spec: { containers: [{ ...CONTAINER, env: many(1024) }] } },
      refused: { spec: { containers: [CONTAINER, { env: many(1025) }] } },
      want: "spec.containers[1].env 1024",
    },
    ...["terminationGracePeriodSeconds", "activeDeadlineSeconds"].map((field) => ({
      name: `${field} that a number cannot represent`,
      kind: "Pod",
      allowed: { spec: { [field]: 2_147_483_647n } },
      refused: { spec: { [field]: 9_007_199_254_740_993n } },
      want: `spec.${field} 2147483647`,
    })),
    {
      name: "the grace period of a probe",
      kind: "Pod",
      allowed: { spec: { containers: [{ livenessProbe: {} }] } },
      refused: {
        spec: { containers: [{ livenessProbe: { terminationGracePeriodSeconds: 9e12 } }] },
      },
      want: "spec.containers[0].livenessProbe.terminationGracePeriodSeconds 2147483647",
    },
    {
      name: "volumes of a template",
      kind: "Deployment",
      allowed: { spec: { template: { spec: { volumes: many(64) } } } },
      refused: { spec: { template: { spec: { volumes: many(65) } } } },
      want: "spec.template.spec.volumes 64",
    },
    {
      name: "ports",
      kind: "Service",
      allowed: { spec: { ports: many(256) } },
      refused: { spec: { ports: many(257) } },
      want: "spec.ports 256",
    },
    {
      name: "a message",
      kind: "Event",
      allowed: { message: "x".repeat(8192) },
      refused: { message: "x".repeat(200_000) },
      want: "message 8192",
    },
    {
      name: "the data of a ConfigMap is limited by its kind",
      kind: "ConfigMap",
      allowed: { data: { a: "x".repeat(1_048_575) } },
      refused: { data: { a: "x".repeat(2_000_000) } },
      want: "data.a 1572864",
    },
    {
      name: "owners",
      kind: "Secret",
      allowed: { metadata: { ownerReferences: many(1024) } },
      refused: { metadata: { ownerReferences: many(1025) } },
      want: "metadata.ownerReferences 1024",
    },
  ])("$kind: $name", ({ kind, allowed, refused, want }) => {
    const { schema, defaults } = buildKindLimits(kind);
    const judge = (object: object): string => {
      const problem = findBeyondLimit(object, schema, "", defaults);
      return problem === undefined ? "" : `${problem.field} ${String(problem.max)}`;
    };
    expect(judge(allowed ?? {})).toBe("");
    expect(judge(refused)).toBe(want);
  });
});

/** Kinds whose objects only operators write. */
const OPERATORS_KINDS = ["KubeVirt", "MigrationPolicy"];

function listUnlimited(schema: unknown, path: string): readonly string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const {
    type,
    properties = {},
    items,
    additionalProperties,
    ...keywords
  } = schema as Readonly<Record<string, unknown>>;
  const isUnlimited =
    (type === "array" && !("maxItems" in keywords)) ||
    (type === "string" && !("maxLength" in keywords) && !("enum" in keywords)) ||
    (additionalProperties !== undefined && !("maxProperties" in keywords));
  return [
    ...(isUnlimited ? [path] : []),
    ...Object.entries(properties as object).flatMap(([name, child]) =>
      listUnlimited(child, `${path}.${name}`),
    ),
    ...listUnlimited(items, `${path}[]`),
    ...listUnlimited(additionalProperties, `${path}{}`),
  ];
}

describe("the definitions of the kinds", () => {
  const definitions = customResourceDefinitions().filter(
    ({ spec }) => !OPERATORS_KINDS.includes(spec.names.kind),
  );

  test.each(definitions.map((crd) => [crd.spec.names.kind, crd] as const))(
    "limit each list, map and text of %s",
    (_kind, crd) => {
      const unlimited = crd.spec.versions.flatMap(({ schema }) => {
        const { properties } = schema.openAPIV3Schema as {
          readonly properties: Readonly<Record<string, unknown>>;
        };
        return listUnlimited(properties["spec"], "spec");
      });
      expect(unlimited).toEqual([]);
    },
  );

  test("have the numbers of the table", () => {
    const text = JSON.stringify(definitions);
    expect(text).toContain('"maxItems":64');
    expect(text).toContain('"maxLength":65536');
    expect(text).not.toContain("maxBytes");
  });
});

test("each limit of the table has a reason and a source", () => {
  const limits = LIMIT_GROUPS.flatMap((group) => group.limits);
  expect(limits.filter(({ reason, source }) => reason === "" || source === "")).toEqual([]);
  expect(limits.length).toBeGreaterThan(30);
});

test("judges until there are eight problems", () => {
  const judged: number[] = [];
  const problems = collectProblems(
    Array.from({ length: 100 }, (_unused, index) => index),
    (item) => {
      judged.push(item);
      return [item, item, item];
    },
  );
  expect(problems).toHaveLength(PROBLEMS_MAX);
  expect(judged).toEqual([0, 1, 2]);
});

test("cuts texts", () => {
  expect(cutText("a".repeat(128))).toBe("a".repeat(128));
  expect(cutText("a".repeat(129))).toBe(`${"a".repeat(128)}…`);
});

test("a check that throws is a problem itself", () => {
  const fail = (): readonly string[] => {
    throw new RangeError("Invalid string length");
  };
  const problems = runChecks([() => ["a"], fail, () => ["b"]], (message) => message);
  expect(problems).toEqual(["the check failed: RangeError: Invalid string length"]);
  expect(runChecks([() => ["a"], () => ["b"]], (message) => message)).toEqual(["a", "b"]);
});
