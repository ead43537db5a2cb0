// SPDX-License-Identifier: Apache-2.0
// kubectl and the supervisor create the same objects from the manifests, and the server grants their rights.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { applyManifests, parseManifests, readManifests } from "@patchbay/manifests";
import { listRights, type Right } from "@patchbay/manifests/testing";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, QUIET, startHarness } from "../apiserver/harness.ts";

const FOLDER = join(import.meta.dirname, "../../../packages/common/manifests/standalone");
const REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

let api: Harness;
let client: KubeClient;
let directory: string;

beforeAll(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "manifests-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  client = createKubeClient(await loadKubeConfig({ kubeconfig }), {
    logger: QUIET,
    clock: createClock(),
  });
});

afterAll(async () => {
  await client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

async function readObjects(): Promise<ReturnType<typeof parseManifests>> {
  return parseManifests(await readManifests(createFiles(), "standalone"));
}

/** kubectl's output per object. */
async function apply(): Promise<readonly string[]> {
  const files = ["--kubeconfig", join(directory, "kubeconfig"), "--cache-dir", directory];
  const argv = ["kubectl", ...files, "apply", "-k", FOLDER] as const;
  const { stdout } = await createProcessRunner().run({ argv, timeoutMs: 30_000 });
  return stdout.trim().split("\n");
}

async function versions(): Promise<readonly (string | undefined)[]> {
  const { body } = await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles");
  return body.items.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`);
}

test("after kubectl applies them the supervisor finds nothing to change", async () => {
  const output = await apply();
  expect(output).toHaveLength((await readObjects()).length);
  expect(output.filter((line) => !line.endsWith(" created"))).toEqual([]);
  const before = await versions();
  await applyManifests(client.store, await readObjects());
  expect(await versions()).toEqual(before);
});

test("grants each right, also in a namespace, and no similar one", async () => {
  const isAllowed = async (right: Right): Promise<unknown> => {
    const { user, verb, resource: text, namespace = "ns", name = "any" } = right;
    const [whole = "", subresource = ""] = text.split("/");
    const [resource = "", ...group] = whole.split(".");
    const target = {
      group: group.join("."),
      resource,
      subresource,
      namespace,
      name,
    };
    // A right may be granted to a group.
    const spec = { user, groups: [user], resourceAttributes: { verb, ...target } };
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
    return (await api.post(REVIEWS, review)).body.status?.["allowed"];
  };
  const rights = listRights(await readObjects());
  const granted = await Promise.all(rights.map(isAllowed));
  expect(rights.filter((_, index) => granted[index] !== true)).toEqual([]);
  const users = [...new Set(rights.map(({ user }) => user))];
  for (const resource of ["secrets", "clusterroles.rbac.authorization.k8s.io", "pods/exec"]) {
    const answers = await Promise.all(
      users.map((user) => isAllowed({ user, verb: "create", resource })),
    );
    expect(new Set(answers)).toEqual(new Set([false]));
  }
});
