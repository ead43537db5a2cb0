// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test } from "vitest";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/persistent-volume-claim.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";
import type { AdmissionRequest } from "./admission.ts";
import { rejectUploadClaims } from "./persistent-volume-claim.ts";

const CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims";
const DEFAULT = "storageclass.kubernetes.io/is-default-class";
const SPEC = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };

interface Class {
  readonly name: string;
  readonly second?: number;
  readonly isDefault?: boolean;
}

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(async () => {
  await server.close();
});

async function putClass({ name, second = 0, isDefault = true }: Class): Promise<void> {
  await server.put("storage.k8s.io/storageclasses", {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: {
      name,
      creationTimestamp: `2026-01-01T00:00:0${String(second)}Z`,
      annotations: { [DEFAULT]: String(isDefault) },
    },
    provisioner: "x.io/p",
  });
}

async function classOf(metadata: Fields, spec: Fields): Promise<unknown> {
  const body = { metadata: { name: "c", ...metadata }, spec: { ...SPEC, ...spec } };
  const answer = await server.send("POST", CLAIMS, { body });
  expect(answer.code).toBe(201);
  return (answer.body["spec"] as Fields)["storageClassName"];
}

test.each<{ name: string; classes: readonly Class[]; want: string | undefined }>([
  { name: "none", classes: [], want: undefined },
  {
    name: "no class if no class is the default",
    classes: [{ name: "a", isDefault: false }],
    want: undefined,
  },
  { name: "the default", classes: [{ name: "a", isDefault: false }, { name: "b" }], want: "b" },
  {
    name: "the newest of several defaults",
    classes: [
      { name: "a", second: 1 },
      { name: "b", second: 3 },
      { name: "c", second: 2 },
    ],
    want: "b",
  },
  {
    name: "the first name among defaults of the same second",
    classes: [{ name: "b" }, { name: "a" }, { name: "c" }],
    want: "a",
  },
])("a claim without a class gets $name", async ({ classes, want }) => {
  for (const one of classes) await putClass(one);
  expect(await classOf({}, {})).toBe(want);
});

test.each<{ name: string; metadata?: Fields; spec?: Fields; want: unknown }>([
  { name: "another class", spec: { storageClassName: "other" }, want: "other" },
  { name: "the empty class", spec: { storageClassName: "" }, want: "" },
  {
    name: "a class in the deprecated annotation",
    metadata: { annotations: { "volume.beta.kubernetes.io/storage-class": "old" } },
    want: undefined,
  },
])("a claim that names $name retains its class", async ({ metadata = {}, spec = {}, want }) => {
  await putClass({ name: "a" });
  expect(await classOf(metadata, spec)).toBe(want);
});

test("an existing claim gets no default class", async () => {
  await classOf({}, {});
  await putClass({ name: "a" });
  const body = { metadata: { labels: { a: "b" } } };
  const answer = await server.send("PATCH", `${CLAIMS}/c`, { body });
  expect([answer.code, answer.body["spec"]]).toEqual([
    200,
    expect.not.objectContaining({ storageClassName: "a" }),
  ]);
});

const UPLOAD = "cdi.kubevirt.io/storage.upload.target";

function claim(annotations?: Record<string, string>): KubeObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "c", namespace: "ns", ...(annotations && { annotations }) },
  };
}

const WAITING = claim({ [UPLOAD]: "" });

const NEW_CLAIM: AdmissionRequest = {
  kind: PERSISTENT_VOLUME_CLAIM,
  subresource: "",
  operation: "CREATE",
  namespace: "ns",
  name: "c",
  object: WAITING,
  oldObject: undefined,
  options: {},
  user: { name: "u", groups: [] },
  dryRun: false,
  warnings: [],
};

/** A store with CDI's definition, which has these labels. */
function storeWith(labels: Record<string, string> | undefined) {
  const view = () => ({ metadata: { name: "datavolumes.cdi.kubevirt.io", labels } });
  return { find: () => ({ view }) as unknown as StoredObject }; // only its view is read
}

const NO_CDI = { find: () => undefined };

test.each<{ name: string; change?: Partial<AdmissionRequest>; store?: typeof NO_CDI }>([
  { name: "another kind", change: { kind: CONFIG_MAP } },
  { name: "a status", change: { subresource: "status" } },
  { name: "a deletion", change: { operation: "DELETE", object: undefined, oldObject: WAITING } },
  { name: "a claim without annotations", change: { object: claim() } },
  { name: "a claim with another annotation", change: { object: claim({ a: "b" }) } },
  { name: "a claim that waited before", change: { operation: "UPDATE", oldObject: WAITING } },
])("$name is accepted", ({ change }) => {
  expect(() => {
    rejectUploadClaims({ ...NEW_CLAIM, ...change }, NO_CDI);
  }).not.toThrow();
});

test.each([
  { name: "whose definition has other labels", labels: { "app.kubernetes.io/part-of": "cdi" } },
  { name: "whose definition has no such label", labels: {} },
])("a claim for a CDI $name is accepted", ({ labels }) => {
  expect(() => {
    rejectUploadClaims(NEW_CLAIM, storeWith(labels));
  }).not.toThrow();
});

test.each([
  { name: "without any definition", store: NO_CDI, change: {} },
  {
    name: "with the machine's own definition",
    store: storeWith({ "app.kubernetes.io/part-of": "patchbay" }),
    change: {},
  },
  {
    name: "that gets the upload annotation in an update",
    store: NO_CDI,
    change: { operation: "UPDATE", oldObject: claim() } as const,
  },
])("rejects a claim $name, with the field and the reason", ({ store, change }) => {
  let refusal: unknown;
  try {
    rejectUploadClaims({ ...NEW_CLAIM, ...change }, store);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 422,
    details: {
      name: "c",
      causes: [
        {
          reason: "FieldValueNotSupported",
          field: `metadata.annotations[${UPLOAD}]`,
          message: expect.stringMatching(/^Patchbay does not have \S/) as string,
        },
      ],
    },
  });
});
