// SPDX-License-Identifier: Apache-2.0
// A tenant that requests everything, in a namespace with the default quota of `patchbay create namespace`.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { aVmi } from "@patchbay/support";
import { ensureKinds } from "@patchbay/supervisor/objects";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SETTINGS } from "../../../packages/control-plane/core/src/testing/launcher-facts.ts";
import { buildLauncherPod } from "../../../packages/control-plane/core/src/vm/pod/launcher-pod.ts";
import { callPatchbay } from "../../../packages/cli/src/testing/run-patchbay.ts";
import {
  type Answer,
  type Harness,
  QUIET,
  startHarness,
} from "../../contract/apiserver/harness.ts";

const KIB = 1024;
const MIB = KIB * KIB;
/** Long texts of one object, below the limit of 256 KiB. */
const LONG_BYTES = 250 * KIB;
const VICTIM = "victim";
const CAPACITY = {
  cpu: "8",
  memory: "64Gi",
  "ephemeral-storage": "100Gi",
  pods: "110",
  "devices.kubevirt.io/tun": "1k",
};

let api: Harness;
let directory: string;
let kubeconfig: string;

beforeAll(async () => {
  api = await startHarness();
  directory = await mkdtemp(join(tmpdir(), "attack-"));
  kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig, { mode: 0o600 });
  const client = createKubeClient(await loadKubeConfig({ kubeconfig }), {
    logger: QUIET,
    clock: createClock(),
  });
  await ensureKinds(client.store);
  await client.close();
  const status = { capacity: CAPACITY, allocatable: CAPACITY };
  await api.post("/api/v1/nodes", { metadata: { name: "a" } });
  await api.patch("/api/v1/nodes/a/status", { status });
  await makeTenant(VICTIM);
});

afterAll(async () => {
  await api.close();
  await rm(directory, { recursive: true });
});

async function makeTenant(name: string): Promise<void> {
  const args = ["create", "namespace", name, "--kubeconfig", kubeconfig];
  expect(await callPatchbay(args)).toMatchObject({ exitCode: 0, stderr: "" });
}

const GROUPS: Readonly<Record<string, string>> = {
  virtualmachines: "/apis/kubevirt.io/v1",
};

function create(namespace: string, resource: string, name: string, fields: object) {
  const group = GROUPS[resource] ?? "/api/v1";
  const metadata = { name, ...("metadata" in fields ? (fields.metadata as object) : {}) };
  return api.post(`${group}/namespaces/${namespace}/${resource}`, { ...fields, metadata });
}

function createPod(namespace: string, name: string, spec: object = {}): Promise<Answer> {
  const containers = [{ name: "c", image: "i" }];
  return create(namespace, "pods", name, { spec: { containers, ...spec } });
}

function createClaim(namespace: string, name: string, storage: string): Promise<Answer> {
  const resources = { requests: { storage } };
  const spec = { accessModes: ["ReadWriteOnce"], resources };
  return create(namespace, "persistentvolumeclaims", name, { spec });
}

function createVm(namespace: string, name: string, annotationBytes: number): Promise<Answer> {
  const metadata = { annotations: { "a/b": "x".repeat(annotationBytes) } };
  const template = { metadata, spec: { domain: { devices: {} } } };
  const spec = { runStrategy: "Halted", template };
  const head = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine" };
  return create(namespace, "virtualmachines", name, { ...head, spec });
}

function createEvent(
  namespace: string,
  name: string,
  { messageBytes = 10, annotationBytes = 0 },
): Promise<Answer> {
  return create(namespace, "events", name, {
    metadata: { annotations: { "a/b": "x".repeat(annotationBytes) } },
    involvedObject: { kind: "Pod", name: "p", namespace },
    reason: "R",
    message: "m".repeat(messageBytes),
  });
}

function causesOf({ body }: Answer): readonly string[] {
  return body.details.causes.map(({ field }) => field);
}

/** Creates objects until one is refused. Returns the number of created objects and the refusal. */
async function createUntilRefused(
  max: number,
  post: (index: number) => Promise<Answer>,
): Promise<{ readonly count: number; readonly refusal: Answer | undefined }> {
  for (let count = 0; count < max; count += 1) {
    const answer = await post(count);
    if (answer.code !== 201) return { count, refusal: answer };
  }
  return { count: max, refusal: undefined };
}

test("a tenant's launcher pod with a console log and an image fits into the quota", async () => {
  await makeTenant("own");
  const { metadata, spec } = aVmi();
  const domain = { ...spec.domain, devices: { ...spec.domain.devices, logSerialConsole: true } };
  const volumes = [{ name: "root", containerDisk: { image: "disk" } }];
  const request = { useEmulation: true, ports: 8, bindings: {}, allowsHooks: false };
  const objects = { claims: new Map(), definitions: new Map() };
  const pod = buildLauncherPod(
    { ...aVmi(), metadata: { ...metadata, namespace: "own" }, spec: { ...spec, domain, volumes } },
    { ...SETTINGS, ...request, ...objects },
  );
  expect(pod.spec.containers.length).toBeGreaterThan(1);
  const { body, code } = await api.post("/api/v1/namespaces/own/pods", pod);
  expect([code, body.message]).toEqual([201, undefined]);
});

describe("affinity to pods of other namespaces", () => {
  const topologyKey = "kubernetes.io/hostname";
  const everywhere = { labelSelector: {}, namespaceSelector: {}, topologyKey };
  const byName = { labelSelector: {}, namespaces: [VICTIM], topologyKey };
  const required = (term: object) => ({ requiredDuringSchedulingIgnoredDuringExecution: [term] });
  const preferred = (podAffinityTerm: object) => ({
    preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }],
  });

  beforeAll(() => makeTenant("t134"));

  test.each([
    { name: "required anti-affinity", affinity: { podAntiAffinity: required(everywhere) } },
    { name: "anti-affinity by name", affinity: { podAntiAffinity: required(byName) } },
    { name: "preferred anti-affinity", affinity: { podAntiAffinity: preferred(everywhere) } },
    { name: "required affinity", affinity: { podAffinity: required(everywhere) } },
  ])("attack 134: refuses a pod with $name", async ({ name, affinity }) => {
    const answer = await createPod("t134", "far", { nodeName: "a", affinity });
    expect([answer.code, answer.body.message]).toEqual([
      403,
      'pods "far" is forbidden: exceeded quota: cross-namespace-affinity, requested: pods=1, used: pods=0, limited: pods=0',
    ]);
    const near = { podAntiAffinity: required({ labelSelector: {}, topologyKey }) };
    expect(
      (await createPod(VICTIM, `near-${name.replaceAll(" ", "-")}`, { affinity: near })).code,
    ).toBe(201);
  });

  test("attack 134: does not let the tenant's administrator change the quota", async () => {
    await api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/t134/rolebindings", {
      metadata: { name: "jane" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "admin" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "jane" }],
    });
    const quotas = "/api/v1/namespaces/t134/resourcequotas";
    const token = "jane-token";
    expect((await api.ask("GET", quotas, { token })).code).toBe(200);
    const type = "application/merge-patch+json";
    const body = { spec: { hard: null }, status: { used: null } };
    const answers = await Promise.all([
      api.ask("DELETE", `${quotas}/cross-namespace-affinity`, { token }),
      api.ask("DELETE", quotas, { token }),
      api.ask("PATCH", `${quotas}/tenant`, { token, type, body }),
      api.ask("PATCH", `${quotas}/tenant/status`, { token, type, body }),
      api.ask("DELETE", "/api/v1/namespaces/t134/limitranges/tenant", { token }),
      api.ask("POST", "/api/v1/namespaces", { token, body: { metadata: { name: "more" } } }),
    ]);
    expect(answers.map(({ code }) => code)).toEqual([403, 403, 403, 403, 403, 403]);
  });
});

describe("many pods and containers", () => {
  beforeAll(() => makeTenant("t139"));

  test("attack 139: refuses a pod with 250 containers", async () => {
    const containers = Array.from({ length: 250 }, (_unused, index) => ({
      name: `c${String(index)}`,
      image: "i",
    }));
    const answer = await createPod("t139", "wide", { containers });
    expect([answer.code, causesOf(answer)]).toEqual([422, ["spec.containers"]]);
  });

  test("attack 139: counts each container, whatever it requests", async () => {
    const resources = { requests: { memory: "0", cpu: "0" } };
    const answer = await createPod("t139", "free", {
      containers: [{ name: "c", image: "i", resources }],
    });
    expect([answer.code, answer.body.message]).toEqual([
      403,
      'pods "free" is forbidden: minimum memory usage per Container is 8Mi, but request is 0',
    ]);
  });

  test("attack 139: refuses most of 1,500 unschedulable pods", async () => {
    const spec = {
      nodeSelector: { no: "node" },
      containers: [{ name: "c", image: "i" }],
    };
    // The tenant reports that its pods have ended, because those do not count.
    const { count, refusal } = await createUntilRefused(1500, (index) =>
      create("t139", "pods", `p${String(index)}`, { spec, status: { phase: "Succeeded" } }),
    );
    expect([count, refusal?.code, refusal?.body.message]).toEqual([
      55,
      403,
      'pods "p55" is forbidden: exceeded quota: tenant, requested: pods=1, used: pods=55, limited: pods=55',
    ]);
    expect((await createPod(VICTIM, "during-139")).code).toBe(201);
  });
});

describe("long texts", () => {
  beforeAll(() => makeTenant("t144"));

  test("attack 144: refuses a VM with a template annotation of 1.4 MB", async () => {
    const answer = await createVm("t144", "long", 1.4 * MIB);
    expect([answer.code, causesOf(answer)]).toEqual([
      422,
      ["spec.template.metadata.annotations.a/b"],
    ]);
  });

  test("attack 144: refuses most of 200 VMs with long annotations", async () => {
    const { count, refusal } = await createUntilRefused(200, (index) =>
      createVm("t144", `v${String(index)}`, LONG_BYTES),
    );
    expect([count, refusal?.code, refusal?.body.message]).toEqual([
      30,
      403,
      'virtualmachines.kubevirt.io "v30" is forbidden: exceeded quota: tenant, requested: count/virtualmachines.kubevirt.io=1, used: count/virtualmachines.kubevirt.io=30, limited: count/virtualmachines.kubevirt.io=30',
    ]);
    expect((await createVm(VICTIM, "during-144", 10)).code).toBe(201);
  });
});

describe("devices and storage", () => {
  beforeAll(() => makeTenant("t154"));

  test("attack 154: refuses a pod with 998 devices", async () => {
    const withDevices = (count: string) => {
      const resources = { limits: { "devices.kubevirt.io/tun": count } };
      return { containers: [{ name: "c", image: "i", resources }] };
    };
    const answer = await createPod("t154", "all", withDevices("998"));
    expect([answer.code, answer.body.message]).toEqual([
      403,
      'pods "all" is forbidden: exceeded quota: tenant, requested: requests.devices.kubevirt.io/tun=998, used: requests.devices.kubevirt.io/tun=0, limited: requests.devices.kubevirt.io/tun=60',
    ]);
    expect((await createPod(VICTIM, "during-154", withDevices("1"))).code).toBe(201);
  });

  test("attack 154: refuses claims for most of the disk", async () => {
    expect((await createClaim("t154", "most", "85Gi")).code).toBe(403);
    const { count, refusal } = await createUntilRefused(17, (index) =>
      createClaim("t154", `c${String(index)}`, "5Gi"),
    );
    expect([count, refusal?.body.message]).toEqual([
      5,
      'persistentvolumeclaims "c5" is forbidden: exceeded quota: tenant, requested: requests.storage=5Gi, used: requests.storage=25Gi, limited: requests.storage=25Gi',
    ]);
    const grown = { spec: { resources: { requests: { storage: "10Gi" } } } };
    const path = "/api/v1/namespaces/t154/persistentvolumeclaims/c0";
    expect((await api.patch(path, grown)).code).not.toBe(200);
    expect((await createClaim(VICTIM, "during-154", "20Gi")).code).toBe(201);
  });
});

describe("events", () => {
  beforeAll(() => makeTenant("t162"));

  test("attack 162: refuses an event with a message of 200 kB", async () => {
    const answer = await createEvent("t162", "long", { messageBytes: 200_000 });
    expect([answer.code, causesOf(answer)]).toEqual([422, ["message"]]);
  });

  test("attack 162: stores no more than the quota of 400 events of 250 KiB", async () => {
    const { count, refusal } = await createUntilRefused(400, (index) =>
      createEvent("t162", `e${String(index)}`, { annotationBytes: LONG_BYTES }),
    );
    expect(count).toBeLessThan(66);
    expect(refusal?.body.message).toContain(
      "exceeded quota: tenant, requested: patchbay.io/stored",
    );
    expect((await createEvent(VICTIM, "during-162", {})).code).toBe(201);
  });
});
