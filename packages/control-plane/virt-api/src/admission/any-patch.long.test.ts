// SPDX-License-Identifier: Apache-2.0
// Whatever a patch makes of a valid VM: the API server and admission answer without a fault of ours, what is refused changes
// nothing, and what is stored is whole: it can be mutated, judged, planned and reported.
import {
  networkConfigOf,
  runStrategyOf,
  VIRTUAL_MACHINES,
  type JsonPatchOperation,
  type VirtualMachine,
} from "@patchbay/api";
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
/** What the server says of what cannot be: anything else is a fault. */
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

/** Members that a VM has or might have, where one may be put, replaced or taken away. */
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

/** Values that fit somewhere, beside any. */
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
  // A removal has no value, which does no harm.
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
  // What is no object cannot be sent as one.
  return isObject ? (fields as Record<string, unknown>) : { spec: fields };
});

const anyPatch: fc.Arbitrary<Patch> = fc.oneof(
  fc
    .array(anyOperation, { minLength: 1, maxLength: 4 })
    .map((operations) => ({ type: "json", operations }) as const),
  anyMerge.map((fields) => ({ type: "merge", fields }) as const),
);

/** The server's answer to a patch; undefined: it was refused. */
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

/** Admission's answer about a change. */
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
  // An AdmissionReview, which the code says.
  return (body as Response).response;
}

/** What a patch makes of an object without any schema, as a webhook is asked before it is checked. */
async function unchecked(vm: VirtualMachine, patch: Patch): Promise<unknown> {
  const store = createFakeStore();
  store.put(VIRTUAL_MACHINES, vm);
  const key = { namespace: vm.metadata.namespace ?? "", name: vm.metadata.name };
  return store.patch(VIRTUAL_MACHINES, key, patch, { dryRun: true }).catch(() => undefined);
}

function operationsIn(text: string | undefined): readonly JsonPatchOperation[] {
  if (text === undefined) return [];
  // A patch of virt-api's own making.
  return JSON.parse(Buffer.from(text, "base64").toString()) as readonly JsonPatchOperation[];
}

/** What is stored can be filled in, judged, and read by whoever acts on it. */
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

/** A fresh VM, which is stored. */
async function putVm(): Promise<VirtualMachine> {
  await admin.store.delete(VIRTUAL_MACHINES, KEY);
  const { spec, apiVersion, kind } = aVm();
  return admin.store.create(VIRTUAL_MACHINES, { apiVersion, kind, spec, metadata: KEY });
}

test("any patch of a valid VM", async () => {
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
