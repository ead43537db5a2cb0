// SPDX-License-Identifier: Apache-2.0
// What an uninstallation takes along of folders that were applied by themselves, on servers that have such kinds and on others.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  apiVersionOf,
  customResourceDefinitions,
  NETWORK_ATTACHMENT_DEFINITIONS,
  names,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { SEPARATE_TYPES, DEFINITIONS } from "../types.ts";
import { install } from "./install.ts";
import { uninstall } from "./uninstall.ts";

const POLICY = join(import.meta.dirname, "../../vhost-user/policy.yaml");

let store: FakeStore;
beforeEach(() => {
  store = createFakeStore();
});

/** All that the folder brings. */
function put(): readonly KubeObject[] {
  const objects = parseAllDocuments(readFileSync(POLICY, "utf8")).map(
    (document) => document.toJS() as KubeObject, // of our own manifests
  );
  for (const type of SEPARATE_TYPES) {
    for (const object of objects) if (object.kind === type.kind) store.put(type, object);
  }
  return objects;
}

async function removed(withObjects = false): Promise<readonly string[]> {
  const reports: string[] = [];
  await uninstall(store, {
    withObjects,
    report: ({ name, blockedReason: kept }) =>
      reports.push(kept === undefined ? name : `${name}: ${kept}`),
    waitUntilDeleted: () => Promise.resolve(),
  });
  return reports;
}

test("deletes the policy that protects the dataplane, its binding first, by label", async () => {
  const objects = put();
  expect(objects.map(({ kind }) => kind)).toEqual(
    SEPARATE_TYPES.map(({ kind }) => kind).toReversed(),
  );
  const labels = { [names.PART_OF_LABEL]: names.PRODUCT };
  for (const { metadata } of objects) expect(metadata).toMatchObject({ labels });
  expect(await removed()).toEqual([
    "ValidatingAdmissionPolicyBinding vhost-user-dataplane.patchbay.io",
    "ValidatingAdmissionPolicy vhost-user-dataplane.patchbay.io",
  ]);
  for (const type of SEPARATE_TYPES) expect((await store.list(type)).items).toEqual([]);
});

test("does nothing on a server without these kinds", async () => {
  const list = store.list.bind(store);
  store.list = (type, options) =>
    SEPARATE_TYPES.includes(type)
      ? Promise.reject(new AppError("KUBE_NOT_FOUND", { resource: type.resource, object: "" }))
      : list(type, options);
  expect(await removed()).toEqual([]);
});

/** The definition of networks with our mark, as a store has it. */
function definition(annotations?: Readonly<Record<string, string>>): KubeObject {
  const found = customResourceDefinitions().find(({ spec }) => spec.group === names.NAD_GROUP);
  if (found === undefined) throw new Error("there is no definition of networks");
  return { ...found, metadata: { ...found.metadata, ...(annotations && { annotations }) } };
}

const OBJECT = {
  apiVersion: apiVersionOf(NETWORK_ATTACHMENT_DEFINITIONS),
  kind: NETWORK_ATTACHMENT_DEFINITIONS.kind,
};
const NAD_CRD = "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io";
const APPLIED = { "kubectl.kubernetes.io/last-applied-configuration": "{}" };

test.each([
  { name: "without objects is deleted", nads: 0, withObjects: false, want: NAD_CRD },
  {
    name: "with objects is retained",
    nads: 1,
    withObjects: false,
    want: `${NAD_CRD}: objects of it still exist: NetworkAttachmentDefinition default/n0`,
  },
  {
    name: "with objects is retained with --with-objects, too",
    nads: 2,
    withObjects: true,
    want: `${NAD_CRD}: objects of it still exist: NetworkAttachmentDefinition default/n0, NetworkAttachmentDefinition default/n1`,
  },
  {
    name: "that kubectl applied is retained because it may be another component's",
    nads: 0,
    withObjects: true,
    annotations: APPLIED,
    want: `${NAD_CRD}: kubectl applied it, so another component may need it`,
  },
])("a network definition CRD $name", async ({ nads, withObjects, annotations, want }) => {
  store.put(DEFINITIONS, definition(annotations));
  for (let index = 0; index < nads; index += 1) {
    const metadata = { name: `n${String(index)}`, namespace: "default" };
    store.put(NETWORK_ATTACHMENT_DEFINITIONS, { ...OBJECT, metadata });
  }
  expect(await removed(withObjects)).toEqual([want]);
  expect((await store.list(NETWORK_ATTACHMENT_DEFINITIONS)).items).toHaveLength(nads);
});

test.each([
  { mark: "our", labels: { [names.PART_OF_LABEL]: names.PRODUCT }, want: "unchanged" },
  { mark: "no", labels: {}, want: "left alone" },
])(
  "install does not overwrite a network definition CRD with $mark mark",
  async ({ labels, want }) => {
    const metadata = { ...definition().metadata, labels };
    const stored = { ...definition(), metadata, spec: { of: "another" } };
    store.put(DEFINITIONS, stored);
    const changes: string[] = [];
    await install(store, {
      objects: [definition()],
      dryRun: false,
      report: ({ change }) => changes.push(change),
    });
    expect(changes).toEqual([want]);
    expect(await store.find(DEFINITIONS, metadata)).toMatchObject({ spec: { of: "another" } });
  },
);
