// SPDX-License-Identifier: Apache-2.0
// The rights of the Job with the checks suffice for them on a real API server.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { applyManifests, parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildPreflightRights } from "../../../../hack/chart/additions.ts";
import { collectInstallFacts } from "../../../../packages/cli/src/doctor/before-install.ts";
import { judgeBeforeInstall } from "../../../../packages/cli/src/doctor/checks/before-install.ts";
import { type Harness, QUIET, startHarness } from "../../apiserver/harness.ts";

const NAMESPACE = { apiVersion: "v1", kind: "Namespace", metadata: { name: "patchbay" } };
const KUBEVIRT = {
  apiVersion: "apiregistration.k8s.io/v1",
  kind: "APIService",
  metadata: { name: "v1.subresources.kubevirt.io" },
  spec: {
    group: "subresources.kubevirt.io",
    version: "v1",
    groupPriorityMinimum: 1000,
    versionPriority: 15,
    service: { name: "virt-api", namespace: "kubevirt" },
  },
};

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

/** A user with no rights but those of the Job. */
function asJane(): Promise<KubeClient> {
  const cluster = {
    server: api.server.url,
    "certificate-authority-data": Buffer.from(api.authority.certPem).toString("base64"),
  };
  const config = {
    "current-context": "a",
    contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
    clusters: [{ name: "a", cluster }],
    users: [{ name: "a", user: { token: "jane-token" } }],
  };
  return connect(JSON.stringify(config));
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
  await applyManifests(store, [NAMESPACE, ...buildPreflightRights().map(boundToJane), KUBEVIRT]);
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
