// SPDX-License-Identifier: Apache-2.0
// kubectl renders the folders like the command line.
import { join, resolve } from "node:path";
import { names } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { parseManifests, readManifests, withSettings } from "@patchbay/manifests";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");
const MANIFESTS = join(ROOT, "packages/common/manifests");
const CRDS = join(ROOT, "crds");

function byName(objects: readonly KubeObject[]): ReadonlyMap<string, KubeObject> {
  const entries = objects.map((object): [string, KubeObject] => {
    const { namespace = "", name } = object.metadata;
    return [`${object.kind} ${namespace}/${name}`, object];
  });
  return new Map(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

async function kustomize(folder: string): Promise<readonly KubeObject[]> {
  const argv = ["kubectl", "kustomize", resolve(MANIFESTS, folder)] as const;
  const { stdout } = await createProcessRunner().run({ argv, timeoutMs: 30_000 });
  return parseAllDocuments(stdout).map((document) => document.toJS() as KubeObject);
}

function isDefinition({ kind }: KubeObject): boolean {
  return kind === "CustomResourceDefinition";
}

/** What install applies, without CRDs: `kubectl delete -k` would delete all VMs and networks with them. */
async function readOverlay(folder: "base" | "net-agent-only"): Promise<readonly KubeObject[]> {
  const read = parseManifests(await readManifests(createFiles(), folder));
  const rest = read.filter((object) => !isDefinition(object));
  expect(read.length).toBeGreaterThan(rest.length);
  return rest;
}

test("kustomize renders crds like install, without the definition of networks", async () => {
  const read = parseManifests(await readManifests(createFiles(), "base")).filter(isDefinition);
  const own = read.filter(({ metadata }) => !metadata.name.endsWith(`.${names.NAD_GROUP}`));
  expect(read.length - own.length).toBe(1);
  expect(byName(await kustomize(CRDS))).toEqual(byName(own));
});

test.each(["base", "net-agent-only"] as const)(
  "kustomize renders %s as expected",
  async (folder) => {
    const read = await readOverlay(folder);
    expect(byName(await kustomize(folder))).toEqual(byName(read));
  },
);

test("kustomize renders multi-network-policies as base, with rights and a flag of virt-handler", async () => {
  const read = parseManifests(await readManifests(createFiles(), "multi-network-policies"));
  const [wanted, rendered] = [read, await kustomize("multi-network-policies")].map(byName);
  const added = [...(rendered?.keys() ?? [])].filter((name) =>
    name.includes("multi-network-policies"),
  );
  expect(added).toHaveLength(4);
  const agent = "DaemonSet patchbay/virt-handler";
  const flag = '"--metrics-secure","--multi-network-policies"';
  const text = JSON.stringify(wanted?.get(agent)).replace('"--metrics-secure"', flag);
  expect(rendered?.get(agent)).toEqual(JSON.parse(text));
  const others = (objects: ReadonlyMap<string, KubeObject> | undefined) =>
    new Map([...(objects ?? [])].filter(([name]) => name !== agent));
  expect(others(rendered)).toEqual(others(wanted));
});

test.each(["base", "net-agent-only"] as const)(
  "kustomize renders pod-creation/%s like install --pod-creation",
  async (folder) => {
    const read = await readOverlay(folder);
    const claimed = withSettings(read, { podCreation: true });
    expect(claimed).not.toEqual(read);
    expect(byName(await kustomize(`pod-creation/${folder}`))).toEqual(byName(claimed));
  },
);
