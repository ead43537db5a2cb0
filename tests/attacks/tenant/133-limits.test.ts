// SPDX-License-Identifier: Apache-2.0
// Objects whose lists and durations are far beyond their limits.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VirtApiMachine } from "../virt-api-machine.ts";

const PODS = "/api/v1/namespaces/default/pods";
const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
/** Processor time of one request in the API server. */
const REQUEST_MS = 250;
const ATTEMPTS = 3;
/** Duration of a webhook call. The rules took 30 s for such a VM. */
const WEBHOOK_MS = 3000;
const INTERFACES = "spec.template.spec.domain.devices.interfaces";

let machine: VirtApiMachine;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
});

afterAll(() => machine[Symbol.asyncDispose]());

function times<T>(count: number, build: (name: string) => T): readonly T[] {
  return Array.from({ length: count }, (_unused, index) => build(`n${String(index)}`));
}

function hugeVm(): object {
  const interfaces = times(3500, (name) => {
    return { name, bridge: {}, macAddress: "02:00:00:00:00:01" };
  });
  const networks = times(3500, (name) => ({ name, multus: { networkName: name } })).toReversed();
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "huge" },
    spec: {
      runStrategy: "Halted",
      template: { spec: { domain: { devices: { interfaces } }, networks } },
    },
  };
}

interface Refusal {
  readonly code: number;
  readonly message: string;
  readonly details?: { readonly causes?: readonly { readonly field?: string }[] };
}

function fieldsOf({ details }: Refusal): readonly (string | undefined)[] {
  return (details?.causes ?? []).map(({ field }) => field);
}

interface Try {
  readonly usedMs: number;
  readonly causes: readonly unknown[];
}

async function tryOnce(method: string, path: string, body: unknown): Promise<Try> {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const before = process.threadCpuUsage();
  const answer = await machine.api.ask(method, path, { body, type });
  const used = process.threadCpuUsage(before);
  expect(answer.code).toBe(422);
  return {
    usedMs: (used.user + used.system) / 1000,
    causes: fieldsOf(answer.body as unknown as Refusal),
  };
}

/** Sends an object that is to be refused, until one try is cheap: page faults of a busy machine count as processor time. Returns the fields of the causes. */
async function causesOf(method: string, path: string, body: unknown): Promise<readonly unknown[]> {
  let cheapest = await tryOnce(method, path, body);
  for (let attempt = 1; attempt < ATTEMPTS && cheapest.usedMs >= REQUEST_MS; attempt += 1)
    cheapest = await tryOnce(method, path, body);
  expect(cheapest.usedMs).toBeLessThan(REQUEST_MS);
  return cheapest.causes;
}

describe("a VM of 3,500 interfaces with one MAC on 3,500 networks", () => {
  test("attack 133: the API server refuses it at once", async () => {
    expect(await causesOf("POST", VMS, hugeVm())).toEqual([INTERFACES]);
    const names = { kind: "VirtualMachineInstance", metadata: { name: "huge" } };
    const { template } = (hugeVm() as { readonly spec: { readonly template: object } }).spec;
    const vmi = { apiVersion: "kubevirt.io/v1", ...names, ...template };
    expect(await causesOf("POST", VMIS, vmi)).toEqual(["spec.domain.devices.interfaces"]);
  });

  test.each(["mutate", "validate"])(
    "attack 133: virt-api's webhook %s refuses it at once, as on a cluster",
    async (webhook) => {
      const client = await machine.person();
      const request = {
        uid: "1",
        operation: "CREATE",
        kind: { kind: "VirtualMachine" },
        namespace: "default",
        userInfo: { username: "jane", groups: [] },
        object: hugeVm(),
      };
      const begunMs = performance.now();
      const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
      const { body } = await client.ask("POST", `${machine.url}/${webhook}`, review);
      const { response } = body as unknown as {
        readonly response: { readonly allowed: boolean; readonly status: Refusal };
      };
      expect(performance.now() - begunMs).toBeLessThan(WEBHOOK_MS);
      expect(response).toMatchObject({ allowed: false, status: { code: 422 } });
      expect(fieldsOf(response.status)).toEqual([INTERFACES]);
    },
  );
});

function aPod(spec: object, name = "p"): object {
  return { metadata: { name }, spec: { containers: [{ name: "c", image: "i" }], ...spec } };
}

test("attack 137: refuses a pod with 8,000 pull secrets", async () => {
  const imagePullSecrets = times(8000, (name) => ({ name }));
  expect(await causesOf("POST", PODS, aPod({ imagePullSecrets }))).toEqual([
    "spec.imagePullSecrets",
  ]);
});

test("attack 138: refuses a pod with 2,000 volumes", async () => {
  const volumes = times(2000, (name) => ({ name, emptyDir: {} }));
  expect(await causesOf("POST", PODS, aPod({ volumes }))).toEqual(["spec.volumes"]);
  expect(
    await causesOf("POST", PODS, aPod({ containers: times(2000, (name) => ({ name })) })),
  ).toEqual(["spec.containers"]);
});

describe("a duration of 285,000 years", () => {
  const livenessProbe = { terminationGracePeriodSeconds: 9e12, tcpSocket: { port: 1 } };
  test.each([
    { field: "spec.terminationGracePeriodSeconds", spec: { terminationGracePeriodSeconds: 9e12 } },
    { field: "spec.activeDeadlineSeconds", spec: { activeDeadlineSeconds: 9e12 } },
    {
      field: "spec.tolerations[0].tolerationSeconds",
      spec: { tolerations: [{ effect: "NoExecute", tolerationSeconds: 9e12 }] },
    },
    {
      field: "spec.containers[0].livenessProbe.terminationGracePeriodSeconds",
      spec: { containers: [{ name: "c", image: "i", livenessProbe }] },
    },
  ])("attack 158: $field of a pod is refused", async ({ field, spec }) => {
    expect(await causesOf("POST", PODS, aPod(spec))).toEqual([field]);
  });

  test("attack 158: a grace period above 2^53 s is refused", async () => {
    const text = JSON.stringify(aPod({ terminationGracePeriodSeconds: 1 })).replace(
      '"terminationGracePeriodSeconds":1',
      '"terminationGracePeriodSeconds":1152921504606846976',
    );
    expect(await causesOf("POST", PODS, text)).toEqual(["spec.terminationGracePeriodSeconds"]);
  });

  test("attack 158: a VM's grace period is refused", async () => {
    const spec = { domain: { devices: {} }, terminationGracePeriodSeconds: 9e12 };
    const vm = {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "old" },
      spec: { runStrategy: "Halted", template: { spec } },
    };
    expect(await causesOf("POST", VMS, vm)).toEqual([
      "spec.template.spec.terminationGracePeriodSeconds",
    ]);
  });

  test("attack 158: a pod is evicted and deleted with it", async () => {
    const gracePeriodSeconds = 9e12;
    for (const name of ["one", "two"]) {
      await machine.api.post(PODS, aPod({ nodeName: "node1" }, name));
    }
    const eviction = {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: "one" },
      deleteOptions: { gracePeriodSeconds },
    };
    await machine.api.post(`${PODS}/one/eviction`, eviction);
    await machine.api.delete(`${PODS}/two`, { gracePeriodSeconds });
    for (const name of ["one", "two"]) {
      const { body } = await machine.api.get(`${PODS}/${name}`);
      expect(body.metadata.deletionGracePeriodSeconds).toBe(2 ** 31 - 1);
    }
    const now = await machine.api.delete(`${PODS}/one`, { gracePeriodSeconds: 0 });
    expect(now.code).toBe(200);
  });
});
