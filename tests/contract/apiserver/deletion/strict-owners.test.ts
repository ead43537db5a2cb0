// SPDX-License-Identifier: Apache-2.0
// virt-controller's rights on a server with OwnerReferencesPermissionEnforcement.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STRICT } from "@patchbay/apiserver/testing";
import { vmiOf } from "@patchbay/core/vm";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import { ensureKinds, ensureRights } from "@patchbay/supervisor/objects";
import { aVm } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, type Body, type Harness, QUIET, startHarness } from "../harness.ts";

const KUBEVIRT = "/apis/kubevirt.io/v1/namespaces/default";
const PODS = "/api/v1/namespaces/default/pods";
const CONTROLLER = "system:serviceaccount:patchbay:virt-controller";

let api: Harness;

async function prepare(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "owners-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  const client = createKubeClient(await loadKubeConfig({ kubeconfig }), {
    logger: QUIET,
    clock: createClock(),
  });
  try {
    await ensureRights(client.store, createFiles(), "node");
    await ensureKinds(client.store);
  } finally {
    await client.close();
    await rm(directory, { recursive: true });
  }
}

beforeAll(async () => {
  api = await startHarness({ extensions: STRICT });
  await prepare();
});
afterAll(() => api.close());

function as(user: string, path: string, body: unknown): Promise<Answer> {
  return api.ask("POST", path, { body, headers: { "impersonate-user": user } });
}

/** A pod that blocks its owner's deletion. */
function podOf({ apiVersion, kind, metadata }: Body): object {
  const { name, uid } = metadata;
  const owner = { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
  const containers = [{ name: "c", image: "i:1" }];
  return { metadata: { generateName: "p-", ownerReferences: [owner] }, spec: { containers } };
}

test("a VM waits for its VMI, and the VMI for its pod", async () => {
  const { metadata, ...vm } = aVm();
  const { name, namespace = "" } = metadata;
  const path = `${KUBEVIRT}/virtualmachines`;
  const { uid } = (await api.post(path, { ...vm, metadata: { name, namespace } })).body.metadata;
  const planned = vmiOf({ ...vm, metadata: { name, namespace, uid } }, {});
  const made = await as(CONTROLLER, `${KUBEVIRT}/virtualmachineinstances`, planned);
  expect(made.text).toContain('"blockOwnerDeletion":true');
  expect(made.code).toBe(201);
  expect(await as(CONTROLLER, PODS, podOf(made.body))).toMatchObject({ code: 201 });
});

test("an owner does not wait for a client that may not set its finalizers", async () => {
  const maps = "/api/v1/namespaces/default/configmaps";
  const map = (await api.post(maps, { metadata: { name: "m" } })).body;
  expect(await as(CONTROLLER, PODS, podOf(map))).toMatchObject({
    code: 403,
    body: {
      message: expect.stringContaining(
        "cannot set blockOwnerDeletion if an ownerReference refers to",
      ) as string,
    },
  });
});
