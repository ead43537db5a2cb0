// SPDX-License-Identifier: Apache-2.0
// The rights of the chart's Jobs suffice for their commands on a real API server.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { customResourceDefinitions, names, PODS, VIRTUAL_MACHINES } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import {
  applyManifests,
  parseManifests,
  prepareUninstall,
  readManifests,
} from "@patchbay/manifests";
import { createClock, createFiles } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BEFORE_REMOVAL, buildHookRights, PREFLIGHT } from "../../../../hack/chart/additions.ts";
import { collectInstallFacts } from "../../../../packages/cli/src/doctor/before-install.ts";
import { judgeBeforeInstall } from "../../../../packages/cli/src/doctor/checks/before-install.ts";
import {
  type Harness,
  janeKubeconfig,
  KUBEVIRT_API_SERVICE,
  QUIET,
  startHarness,
} from "../../apiserver/harness.ts";

const NAMESPACE = { apiVersion: "v1", kind: "Namespace", metadata: { name: "patchbay" } };

let api: Harness;
let directory = "";
const clients: KubeClient[] = [];

async function connect(kubeconfig: string): Promise<KubeClient> {
  const file = join(directory, `kubeconfig-${String(clients.length)}`);
  await writeFile(file, kubeconfig, { mode: 0o600 });
  const options = { logger: QUIET, clock: createClock() };
  const client = createKubeClient(await loadKubeConfig({ kubeconfig: file }), options);
  clients.push(client);
  return client;
}

/** A user with no rights but those of a Job. */
function asJane(): Promise<KubeClient> {
  return connect(janeKubeconfig(api));
}

function boundToJane(object: KubeObject): KubeObject {
  if (!object.kind.endsWith("Binding")) return object;
  const apiGroup = "rbac.authorization.k8s.io";
  const bound = { ...object, subjects: [{ kind: "User", name: "jane", apiGroup }] };
  return bound;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "patchbay-preflight-"));
  api = await startHarness();
});

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

test("the Job observes what the doctor checks, and finds another installation", async () => {
  const { store } = await connect(api.kubeconfig);
  await applyManifests(store, [
    NAMESPACE,
    ...buildHookRights(PREFLIGHT).map(boundToJane),
    KUBEVIRT_API_SERVICE,
  ]);
  const objects = parseManifests(await readManifests(createFiles(), "base"));
  const facts = await collectInstallFacts(await asJane(), { objects, settings: {} }, true);
  const failed = Object.entries(facts)
    .filter(([, fact]) => typeof fact === "object" && fact !== null && "failure" in fact)
    .map(([name]) => name);
  // The Job's account may not create objects, so its rights, its pods and a dry run would prove nothing.
  expect(failed.toSorted()).toEqual(["missingRights", "plan", "refusedPods"]);
  const wrong = judgeBeforeInstall(facts).filter(({ verdict }) => verdict === "wrong");
  expect(wrong.map(({ check }) => check)).toContain("APIService v1.subresources.kubevirt.io");
});

const DEFINED: readonly string[] = [
  "virtualmachines.kubevirt.io",
  "virtualmachineinstances.kubevirt.io",
];
const AGENT: Pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "agent",
    namespace: "patchbay",
    labels: { "app.kubernetes.io/name": "net-agent" },
  },
  spec: { containers: [{ name: "net-agent", image: "i" }] },
};

test("the Job before a removal fails while a VM exists, and then marks net-agent's pods", async () => {
  const { store } = await connect(api.kubeconfig);
  const definitions = customResourceDefinitions().filter(({ metadata }) =>
    DEFINED.includes(metadata.name),
  );
  const rights = buildHookRights(BEFORE_REMOVAL).map(boundToJane);
  await applyManifests(store, [...definitions, NAMESPACE, ...rights]);
  await store.create(PODS, AGENT);
  const key = { namespace: "default", name: "alpha" };
  const vm = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", metadata: key };
  await store.create(VIRTUAL_MACHINES, {
    ...vm,
    spec: { template: { spec: { domain: { devices: {} } } } },
  });
  const job = await asJane();
  const isMarked = async (): Promise<boolean> => {
    const pod = await store.find(PODS, AGENT.metadata);
    return pod?.metadata.annotations?.[names.UNINSTALL_PLUGIN_ANNOTATION] === "true";
  };
  await expect(prepareUninstall(job.store)).rejects.toMatchObject({ code: "INSTALL_IN_USE" });
  expect(await isMarked()).toBe(false);
  await store.delete(VIRTUAL_MACHINES, key);
  await prepareUninstall(job.store);
  expect(await isMarked()).toBe(true);
});
