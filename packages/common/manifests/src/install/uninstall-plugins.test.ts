// SPDX-License-Identifier: Apache-2.0
// Which pods of net-agent are told that their end is for good?
import { names, PODS } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createFiles } from "@patchbay/os";
import { beforeEach, expect, test } from "vitest";
import { parseManifests, readManifests } from "../manifests.ts";
import { findType } from "../types.ts";
import { requestPluginRemoval, requestPluginRemovalIfUnused } from "./uninstall-plugins.ts";
import { withSettings } from "./settings.ts";

const plain = parseManifests(await readManifests(createFiles(), "net-agent-only"));
const inPlace = withSettings(plain, { podCreation: true });
const labels = { "app.kubernetes.io/name": "net-agent" };
let store: FakeStore;

function findAgent(objects: readonly KubeObject[]): KubeObject {
  const found = objects.find(({ kind }) => kind === "DaemonSet");
  if (found === undefined) throw new Error("there is no DaemonSet");
  return found;
}

async function isMarked(name: string, namespace = "patchbay"): Promise<boolean> {
  const pod = await store.find(PODS, { namespace, name });
  return pod?.metadata.annotations?.[names.UNINSTALL_PLUGIN_ANNOTATION] === "true";
}

beforeEach(() => {
  store = createFakeStore();
  const spec = { containers: [] };
  for (const metadata of [
    { namespace: "patchbay", name: "agent-1", labels },
    { namespace: "other", name: "agent-1", labels },
  ]) {
    store.put(PODS, { apiVersion: "v1", kind: "Pod", metadata, spec });
  }
});

test("marks the agents of its own namespace only", async () => {
  await requestPluginRemoval(store);
  expect(await isMarked("agent-1")).toBe(true);
  expect(await isMarked("agent-1", "other")).toBe(false);
});

test.each([
  {
    name: "pod creation was enabled and is now disabled",
    found: inPlace,
    next: plain,
    want: true,
  },
  { name: "pod creation stays enabled", found: inPlace, next: inPlace, want: false },
  { name: "pod creation stays disabled", found: plain, next: plain, want: false },
  {
    name: "pod creation was disabled and is now enabled",
    found: plain,
    next: inPlace,
    want: false,
  },
  { name: "the DaemonSet does not exist", found: undefined, next: plain, want: false },
])("an installation marks the agents if $name: $want", async ({ found, next, want }) => {
  if (found !== undefined) store.put(findType(findAgent(found)), findAgent(found));
  await requestPluginRemovalIfUnused(store, next);
  expect(await isMarked("agent-1")).toBe(want);
});
