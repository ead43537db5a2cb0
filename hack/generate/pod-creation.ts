// SPDX-License-Identifier: Apache-2.0
// Renders the kustomize overlays that make net-agent the CNI plugin of the nodes' container runtimes, from the output of `patchbay install
// --pod-creation`.
import type { KubeObject } from "@patchbay/api/kubernetes";
import {
  parseManifests,
  readManifests,
  withSettings,
  type ManifestFolder,
} from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { stringify } from "yaml";

/** Folders of manifests to patch. */
export const INSTALLATIONS = [
  "base",
  "net-agent-only",
] as const satisfies readonly ManifestFolder[];

const HEADER =
  "# SPDX-License-Identifier: Apache-2.0\n# Generated from packages/common/manifests/src/install/pod-creation.ts; do not edit. Run: npm run gen\n";
const PATCH = "net-agent.yaml";
const POD = "/spec/template/spec";

type Fields = Readonly<Record<string, unknown>>;

/** A DaemonSet whose pod has one container. */
interface Workload extends KubeObject {
  readonly spec: {
    readonly template: { readonly spec: Fields & { readonly containers: readonly Fields[] } };
  };
}

function isWorkload(object: KubeObject): object is Workload {
  return object.kind === "DaemonSet" && object.metadata.name === "net-agent";
}

function podOf(objects: readonly KubeObject[]): Workload["spec"]["template"]["spec"] {
  const found = objects.find(isWorkload);
  if (found === undefined) throw new Error("there is no net-agent");
  return found.spec.template.spec;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Returns the entries that were appended to an unchanged list; undefined if the list changed otherwise. */
function findAppended(before: unknown, after: unknown): readonly unknown[] | undefined {
  if (!Array.isArray(before) || !Array.isArray(after)) return undefined;
  return isSame(after.slice(0, before.length), before) ? after.slice(before.length) : undefined;
}

/** Returns JSON patch operations for changed fields. Skips containers, which are compared one by one. Source: RFC 6902. */
function changes(path: string, before: Fields, after: Fields): readonly object[] {
  return Object.entries(after).flatMap(([name, value]): readonly object[] => {
    if (name === "containers" || isSame(before[name], value)) return [];
    const at = `${path}/${name}`;
    const appended = findAppended(before[name], value);
    if (appended !== undefined) {
      return appended.map((one) => ({ op: "add", path: `${at}/-`, value: one }));
    }
    return [{ op: name in before ? "replace" : "add", path: at, value }];
  });
}

function renderPatch(objects: readonly KubeObject[]): string {
  const before = podOf(objects);
  const after = podOf(withSettings(objects, { podCreation: true }));
  const operations = [
    ...changes(POD, before, after),
    ...after.containers.flatMap((container, index) =>
      changes(`${POD}/containers/${String(index)}`, before.containers[index] ?? {}, container),
    ),
  ];
  return (
    HEADER + stringify(operations, { lineWidth: 100, aliasDuplicateObjects: false, version: "1.1" })
  );
}

/** Uses fields that both kubectl 1.20 and current versions accept. */
function renderKustomization(folder: ManifestFolder): string {
  const target = { group: "apps", version: "v1", kind: "DaemonSet", name: "net-agent" };
  const text = stringify({
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    bases: [`../../${folder}`],
    patchesJson6902: [{ target: { ...target, namespace: "patchbay" }, path: PATCH }],
  });
  return `${HEADER}# kubectl apply -k packages/common/manifests/pod-creation/${folder}\n${text}`;
}

export async function renderPodCreation(
  folder: (typeof INSTALLATIONS)[number],
): Promise<ReadonlyMap<string, string>> {
  const objects = parseManifests(await readManifests(createFiles(), folder));
  return new Map([
    ["kustomization.yaml", renderKustomization(folder)],
    [PATCH, renderPatch(objects)],
  ]);
}
