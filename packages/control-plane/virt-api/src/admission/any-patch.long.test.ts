// SPDX-License-Identifier: Apache-2.0
// Random patches of a valid VM cause no internal error, rejected patches change
// nothing, and every stored VM can be mutated, validated, planned and reported.
import {
  networkConfigOf,
  runStrategyOf,
  VIRTUAL_MACHINES,
  type VirtualMachine,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { isAppError } from "@patchbay/base";
import { vmiOf, vmStartProblems } from "@patchbay/core/vm";
import type { Patch } from "@patchbay/core/interfaces";
import type { KubeClient } from "@patchbay/kube";
import { createFakeStore } from "@patchbay/kube/testing";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBench, type Bench } from "../testing/bench.ts";
import { aVm } from "../testing/objects.ts";

const KEY = { namespace: "default", name: "vm" };
/** Expected error codes of the server. */
const REFUSALS: readonly string[] = ["KUBE_REFUSED", "KUBE_CONFLICT", "KUBE_FORBIDDEN"];

let server: TestServer;
let admin: KubeClient;
let bench: Bench;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
  bench = await startBench(createFakeStore);
});

afterAll(async () => {
  await bench.stop();
  await server.close();
});

/** Paths of members that a patch may add, replace or remove. */
const PATHS = [
  "",
  "/kind",
  "/metadata/labels",
  "/metadata/annotations",
  "/metadata/name",
  "/metadata/uid",
  "/spec",
  "/spec/running",
  "/spec/runStrategy",
  "/spec/template",
  "/spec/template/metadata",
  "/spec/dataVolumeTemplates",
  "/spec/instancetype",
  "/status",
  "/spec/template/spec",
  "networks",
  "networks/0",
  "networks/0/pod",
  "networks/0/multus",
  "networks/-",
  "volumes",
  "domain",
  "domain/memory",
  "domain/memory/guest",
  "domain/cpu",
  "domain/firmware",
  "domain/devices",
  "domain/devices/disks",
  "domain/devices/interfaces",
  "domain/machine",
  "domain/devices/interfaces/0",
  "domain/devices/interfaces/0/name",
  "hostname",
  "domain/devices/interfaces/0/bridge",
  "domain/devices/interfaces/0/macAddress",
  "domain/devices/interfaces/-",
  "terminationGracePeriodSeconds",
  "evictionStrategy",
].map((path) => (path === "" || path.startsWith("/") ? path : `/spec/template/spec/${path}`));

/** Values that are valid for some field. */
const anyValue = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(
    null,
    {},
    [],
    true,
    "Always",
    "Halted",
    "1Gi",
    "red",
    5,
    { name: "red" },
    { name: "red", multus: { networkName: "red" } },
    { name: "red", bridge: {} },
    { name: "red", masquerade: {}, ports: [{ port: 80 }] },
    { name: "default", bridge: {}, state: "absent" },
    [{ name: "red", bridge: {} }],
    [{ name: "red", multus: { networkName: "a/b/c" } }],
  ),
);

const anyOperation = fc
  .record({
    op: fc.constantFrom("add", "replace", "remove"),
    path: fc.constantFrom(...PATHS),
    value: anyValue,
  })
  // A removal ignores the value.
  .map((operation) => operation as JsonPatchOperation);

function nested(path: string, value: unknown): unknown {
  const keys = path
    .split("/")
    .slice(1)
    .filter((key) => key !== "-" && key !== "0");
  return keys.reduceRight((inner, key) => ({ [key]: inner }), value);
}

const anyMerge = fc.tuple(fc.constantFrom(...PATHS), anyValue).map(([path, value]) => {
  const fields = nested(path, value);
  const isObject = typeof fields === "object" && fields !== null && !Array.isArray(fields);
  // Only objects can be sent.
  return isObject ? (fields as Record<string, unknown>) : { spec: fields };
});

const anyPatch: fc.Arbitrary<Patch> = fc.oneof(
  fc
    .array(anyOperation, { minLength: 1, maxLength: 4 })
    .map((operations) => ({ type: "json", operations }) as const),
  anyMerge.map((fields) => ({ type: "merge", fields }) as const),
);

/** The patched object; undefined if the server rejected the patch. */
async function patched(patch: Patch): Promise<VirtualMachine | undefined> {
  try {
    return await admin.store.patch(VIRTUAL_MACHINES, KEY, patch);
  } catch (error) {
    if (!isAppError(error) || !REFUSALS.includes(error.code)) throw error;
    return undefined;
  }
}

interface Response {
  readonly response: { readonly allowed: boolean; readonly patch?: string };
}

async function admit(
  judge: "mutate" | "validate",
  object: unknown,
  oldObject: unknown,
): Promise<Response["response"]> {
  const request = {
    uid: "1",
    operation: "UPDATE",
    namespace: KEY.namespace,
    object,
    oldObject,
    kind: { kind: "VirtualMachine" },
    userInfo: { username: "alice", groups: [] },
  };
  const text = JSON.stringify({ request });
  const { code, body } = await bench.send("POST", `/${judge}`, { text, as: "webhooks" });
  expect(code).toBe(200);
  // An AdmissionReview, as status 200 implies.
  return (body as Response).response;
}

/** Applies a patch without schema validation, which runs after the mutating webhook. */
async function unchecked(vm: VirtualMachine, patch: Patch): Promise<unknown> {
  const store = createFakeStore();
  store.put(VIRTUAL_MACHINES, vm);
  const key = { namespace: vm.metadata.namespace ?? "", name: vm.metadata.name };
  return store.patch(VIRTUAL_MACHINES, key, patch, { dryRun: true }).catch(() => undefined);
}

function operationsIn(text: string | undefined): readonly JsonPatchOperation[] {
  if (text === undefined) return [];
  // virt-api created the patch.
  return JSON.parse(Buffer.from(text, "base64").toString()) as readonly JsonPatchOperation[];
}

/** Checks that mutation, validation and planning accept a stored VM. */
async function expectWhole(vm: VirtualMachine, before: VirtualMachine): Promise<void> {
  const filling = operationsIn((await admit("mutate", vm, before)).patch);
  const whole = await patched({ type: "json", operations: filling });
  expect(whole).toBeDefined();
  const { allowed } = await admit("validate", whole ?? vm, before);
  const config = networkConfigOf(undefined);
  const read = whole ?? vm;
  expect(runStrategyOf(read)).toBeTypeOf("string");
  const problems = allowed ? vmStartProblems(read, vmiOf(read, config.bindings), config) : [];
  expect(problems).toBeInstanceOf(Array);
}

/** Stores a new VM. */
async function putVm(): Promise<VirtualMachine> {
  await admin.store.delete(VIRTUAL_MACHINES, KEY);
  const { spec, apiVersion, kind } = aVm();
  return admin.store.create(VIRTUAL_MACHINES, { apiVersion, kind, spec, metadata: KEY });
}

test("random patches of a valid VM", async () => {
  await fc.assert(
    fc.asyncProperty(anyPatch, async (patch) => {
      const before = await putVm();
      const raw = await unchecked(before, patch);
      if (raw !== undefined) await admit("mutate", raw, before);
      const after = await patched(patch);
      expect(await admin.store.find(VIRTUAL_MACHINES, KEY)).toEqual(after ?? before);
      if (after !== undefined) await expectWhole(after, before);
    }),
    { numRuns: 120 },
  );
});
