// SPDX-License-Identifier: Apache-2.0
// Memory of virt-api after the most that a tenant with the default quota can store.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callPatchbay } from "../../../packages/cli/src/testing/run-patchbay.ts";
import { VirtApiMachine } from "../virt-api-machine.ts";

const VMS = 200;
const ANNOTATION_BYTES = 250 * 1024;
const LATENCY_MS = 2000;

let machine: VirtApiMachine;
let directory: string;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  directory = await mkdtemp(join(tmpdir(), "attack-"));
});

afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

function createVm(namespace: string, name: string, annotationBytes: number) {
  const metadata = { annotations: { "a/b": "x".repeat(annotationBytes) } };
  const template = { metadata, spec: { domain: { devices: {} } } };
  return machine.api.post(`/apis/kubevirt.io/v1/namespaces/${namespace}/virtualmachines`, {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name },
    spec: { runStrategy: "Halted", template },
  });
}

test("attack 144: 200 VMs with long annotations do not double virt-api's memory", async () => {
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, machine.api.kubeconfig, { mode: 0o600 });
  const args = ["create", "namespace", "t1", "--kubeconfig", kubeconfig];
  expect(await callPatchbay(args)).toMatchObject({ exitCode: 0, stderr: "" });
  // Requests of normal size first, so that the memory that each program needs for its work counts as rest.
  for (let count = 0; count < VMS; count += 1)
    expect((await createVm("default", `small-${String(count)}`, 100)).code).toBe(201);
  const { now: restBytes } = await machine.memory();
  const codes: number[] = [];
  for (let count = 0; count < VMS; count += 1)
    codes.push((await createVm("t1", `v${String(count)}`, ANNOTATION_BYTES)).code);
  expect(codes.filter((code) => code === 201)).toHaveLength(30);
  expect(new Set(codes.slice(30))).toEqual(new Set([403]));
  const startMs = performance.now();
  expect((await createVm("default", "during", 100)).code).toBe(201);
  expect(performance.now() - startMs).toBeLessThan(LATENCY_MS);
  expect((await machine.memory()).now).toBeLessThan(2 * restBytes);
});
