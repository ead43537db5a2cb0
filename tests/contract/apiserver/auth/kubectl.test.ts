// SPDX-License-Identifier: Apache-2.0
// kubectl's commands for users and rights, compared with Kubernetes.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

/** Kills a hung command. */
const TIMEOUT_MS = 120_000;

let api: Harness;
let directory: string;

beforeAll(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "apiserver-auth-"));
  await writeFile(join(directory, "kubeconfig"), api.kubeconfig, { mode: 0o600 });
});

afterAll(async () => {
  await api.close();
  await rm(directory, { recursive: true, force: true });
});

interface CommandResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function kubectl(line: string): Promise<CommandResult> {
  const { promise, resolve } = Promise.withResolvers<CommandResult>();
  const KUBECONFIG = join(directory, "kubeconfig");
  const env = { PATH: process.env["PATH"], HOME: directory, KUBECONFIG };
  execFile("kubectl", line.split(" "), { env, timeout: TIMEOUT_MS }, (error, out, err) => {
    resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err });
  });
  return promise;
}

async function mayReadPods(user: string): Promise<string> {
  return (await kubectl(`auth can-i list pods --as ${user}`)).out.trim();
}

test("applies a role that kubectl creates and binds", async () => {
  expect(await mayReadPods("carl")).toBe("no");
  await kubectl("create role reader --verb=get,list --resource=pods");
  const bound = await kubectl("create rolebinding reader --role=reader --user=carl");
  expect(bound.out).toBe("rolebinding.rbac.authorization.k8s.io/reader created\n");
  expect(await mayReadPods("carl")).toBe("yes");
  const { code, err } = await kubectl("get pods --as carl -n kube-system");
  expect([code, err]).toEqual([
    1,
    'Error from server (Forbidden): pods is forbidden: User "carl" cannot list resource "pods" in API group "" in the namespace "kube-system"\n',
  ]);
});

test("applies a cluster role that kubectl creates and binds in every namespace", async () => {
  await kubectl("create clusterrole paths --verb=get --non-resource-url=/logs/*");
  await kubectl("create clusterrole pods --verb=list --resource=pods");
  await kubectl("create clusterrolebinding pods --clusterrole=pods --group=watchers");
  const line = "auth can-i list pods -A --as dora --as-group watchers";
  expect((await kubectl(line)).out).toBe("yes\n");
});

test("can-i lists the user's rights", async () => {
  await kubectl("create role lister --verb=get --resource=configmaps --resource-name=one");
  await kubectl("create rolebinding lister --role=lister --user=emil");
  const { out } = await kubectl("auth can-i --list --as emil");
  expect(out).toMatch(/^configmaps +\[\] +\[one\] +\[get\]$/m);
  expect(out).toMatch(/^ +\[\/healthz\] +\[\] +\[get\]$/m);
});

test("whoami names the user and the groups", async () => {
  const { code, out, err } = await kubectl("auth whoami --as emil --as-group watchers");
  // kubectl before 1.27 has no such command.
  if (err.includes('unknown command "whoami"')) return;
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/^Username +emil$/m);
  expect(out).toMatch(/^Groups +\[watchers system:authenticated\]$/m);
});

test("reconcile adds a file's rules to a role", async () => {
  const manifest = join(directory, "role.json");
  const role = {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name: "reader", namespace: "default" },
    rules: [{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }],
  };
  await writeFile(manifest, JSON.stringify(role));
  const { code, out } = await kubectl(`auth reconcile -f ${manifest}`);
  expect([code, out]).toEqual([0, expect.stringContaining("reconciled")]);
  expect((await kubectl("auth can-i get secrets --as carl")).out).toBe("yes\n");
  expect(await mayReadPods("carl")).toBe("yes");
});

test("binds and impersonates a service account that kubectl creates", async () => {
  await kubectl("create serviceaccount robot");
  await kubectl("create rolebinding robot --clusterrole=view --serviceaccount=default:robot");
  expect(await mayReadPods("system:serviceaccount:default:robot")).toBe("yes");
});
