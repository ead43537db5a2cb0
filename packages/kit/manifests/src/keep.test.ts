// SPDX-License-Identifier: Apache-2.0
// Is what the API server has what the manifests say, whatever it had before?
import type { KubeObject, ResourceType } from "@patchbay/api";
import { createFiles } from "@patchbay/os";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { keepManifests } from "./keep.ts";
import { parseManifests, readManifests } from "./read.ts";
import { isRole, type Role } from "./role.ts";

const objects = parseManifests(await readManifests(createFiles(), "standalone"), "node1");
const RBAC = { group: "rbac.authorization.k8s.io", version: "v1" } as const;
const ROLE_TYPES: readonly ResourceType<KubeObject>[] = [
  { ...RBAC, namespaced: false, resource: "clusterroles", kind: "ClusterRole" },
  { ...RBAC, namespaced: true, resource: "roles", kind: "Role" },
];

/** Rules and labels of all roles that the store has, by name. */
async function storedRoles(store: ReturnType<typeof createFakeStore>): Promise<unknown> {
  const lists = await Promise.all(ROLE_TYPES.map((type) => store.list(type)));
  return byName(lists.flatMap(({ items }) => items).filter(isRole));
}

function byName(roles: readonly Role[]): unknown {
  return Object.fromEntries(
    roles.map(({ kind, metadata, rules }) => [
      `${kind} ${metadata.name}`,
      { labels: metadata.labels, rules },
    ]),
  );
}

const wanted = byName(objects.filter(isRole));

test("an empty server gets everything", async () => {
  const store = createFakeStore();
  await keepManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("keeping everything again changes nothing", async () => {
  const store = createFakeStore();
  await keepManifests(store, objects);
  await keepManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("a role of another version gets the rules and labels of this one", async () => {
  const store = createFakeStore();
  for (const role of objects.filter(isRole)) {
    const { apiVersion, kind, metadata } = role;
    const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }];
    const { name, namespace } = metadata;
    const where = namespace === undefined ? {} : { namespace };
    const older: Role = { apiVersion, kind, metadata: { name, ...where }, rules };
    for (const type of ROLE_TYPES) if (type.kind === kind) store.put(type, older);
  }
  await keepManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("a kind that no manifest has is refused", async () => {
  const stranger = { apiVersion: "v1", kind: "Stranger", metadata: { name: "one" } };
  await expect(keepManifests(createFakeStore(), [stranger])).rejects.toMatchObject({
    code: "API_MALFORMED",
  });
});
