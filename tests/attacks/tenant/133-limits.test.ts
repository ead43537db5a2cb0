// SPDX-License-Identifier: Apache-2.0
// Objects whose lists and durations are far beyond their limits.
import { createFakeStore } from "@patchbay/kube/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mutate } from "../../../packages/control-plane/virt-api/src/admission/mutate.ts";
import { validate } from "../../../packages/control-plane/virt-api/src/admission/validate.ts";
import {
  admissionRequest,
  vmWith,
} from "../../../packages/control-plane/virt-api/src/testing/admission.ts";
import { depsOn } from "../../../packages/control-plane/virt-api/src/testing/deps.ts";
import { type Harness, startHarness } from "../../contract/apiserver/harness.ts";

const PODS = "/api/v1/namespaces/default/pods";
/** Processor time of one request. The rules took 30 s for such a VM. */
const REQUEST_MS = 250;

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(() => api.close());

function times<T>(count: number, build: (name: string) => T): readonly T[] {
  return Array.from({ length: count }, (_unused, index) => build(`n${String(index)}`));
}

test.each([mutate, validate])(
  "attack 133: refuses a VM of 3,500 interfaces with one MAC on 3,500 networks at once",
  async (webhook) => {
    const interfaces = times(3500, (name) => {
      return { name, bridge: {}, macAddress: "02:00:00:00:00:01" };
    });
    const networks = times(3500, (name) => ({ name, multus: { networkName: name } })).toReversed();
    const spec = { domain: { devices: { interfaces: [...interfaces] } }, networks };
    const request = admissionRequest({ ...vmWith({}), spec: { template: { spec } } });
    const before = process.threadCpuUsage();
    const verdict = await webhook(depsOn(createFakeStore()), request);
    const used = process.threadCpuUsage(before);
    expect(verdict).toMatchObject({ allowed: false, code: 422 });
    expect(verdict.allowed ? [] : verdict.causes).toHaveLength(1);
    expect((used.user + used.system) / 1000).toBeLessThan(REQUEST_MS);
  },
);

async function causesOf(spec: object): Promise<readonly (string | undefined)[]> {
  const containers = [{ name: "c", image: "i" }];
  const pod = { metadata: { generateName: "p-" }, spec: { containers, ...spec } };
  const { code, body } = await api.post(PODS, pod);
  expect(code).toBe(422);
  const { causes = [] } =
    (body as { readonly details?: { readonly causes?: readonly Cause[] } }).details ?? {};
  return causes.map(({ field }) => field);
}

interface Cause {
  readonly field?: string;
}

test("attack 137: refuses a pod with 8,000 pull secrets", async () => {
  const imagePullSecrets = times(8000, (name) => ({ name }));
  expect(await causesOf({ imagePullSecrets })).toEqual(["spec.imagePullSecrets"]);
});

test("attack 138: refuses a pod with 2,000 volumes", async () => {
  const volumes = times(2000, (name) => ({ name, emptyDir: {} }));
  expect(await causesOf({ volumes })).toEqual(["spec.volumes"]);
});

test("attack 158: refuses a pod with a grace period of 285,000 years", async () => {
  expect(await causesOf({ terminationGracePeriodSeconds: 9e12 })).toEqual([
    "spec.terminationGracePeriodSeconds",
  ]);
});
