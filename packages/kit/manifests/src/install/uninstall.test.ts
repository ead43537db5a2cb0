// SPDX-License-Identifier: Apache-2.0
// What an uninstallation takes along of folders that were applied by themselves, on servers that have such kinds and on others.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { names, type KubeObject } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { BESIDE } from "../types.ts";
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
  for (const type of BESIDE) {
    for (const object of objects) if (object.kind === type.kind) store.put(type, object);
  }
  return objects;
}

async function removed(): Promise<readonly string[]> {
  const told: string[] = [];
  await uninstall(store, {
    withObjects: false,
    tell: ({ name }) => told.push(name),
    untilGone: () => Promise.resolve(),
  });
  return told;
}

test("the policy that keeps the dataplane goes, which has our mark, its binding first", async () => {
  const objects = put();
  expect(objects.map(({ kind }) => kind)).toEqual(BESIDE.map(({ kind }) => kind).toReversed());
  const labels = { [names.PART_OF_LABEL]: names.PRODUCT };
  for (const { metadata } of objects) expect(metadata).toMatchObject({ labels });
  expect(await removed()).toEqual([
    "ValidatingAdmissionPolicyBinding vhost-user-dataplane.patchbay.io",
    "ValidatingAdmissionPolicy vhost-user-dataplane.patchbay.io",
  ]);
  for (const type of BESIDE) expect((await store.list(type)).items).toEqual([]);
});

test("a server that has no such kind is one where there is nothing to do", async () => {
  const list = store.list.bind(store);
  store.list = (type, options) =>
    BESIDE.includes(type)
      ? Promise.reject(new AppError("KUBE_NOT_FOUND", { resource: type.resource, object: "" }))
      : list(type, options);
  expect(await removed()).toEqual([]);
});
