// SPDX-License-Identifier: Apache-2.0
// The objects of a standalone machine, in a store in memory.
import {
  customResourceDefinitions,
  ENDPOINTS,
  KUBEVIRTS,
  names,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import { ensureKinds, ensureKubeVirt, ensureVirtApi } from "./objects.ts";

type AnyObject = KubeObject & Readonly<Record<string, unknown>>;

function typeOf(group: string, kind: string, namespaced = false): ResourceType<AnyObject> {
  return { group, version: "v1", kind, resource: `${kind.toLowerCase()}s`, namespaced };
}

const SERVICES = typeOf("", "Service", true);
const API_SERVICES = typeOf("apiregistration.k8s.io", "APIService");
const MUTATING = typeOf("admissionregistration.k8s.io", "MutatingWebhookConfiguration");
const VALIDATING = typeOf("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
const CRDS = typeOf("apiextensions.k8s.io", "CustomResourceDefinition");
const ADDRESS = { port: 8443, caPem: "PEM" };
const CA = Buffer.from("PEM").toString("base64");
const SERVICE_KEY = { namespace: names.SERVICES_NAMESPACE, name: "virt-api" };

async function storeWithVirtApi() {
  const store = createFakeStore();
  await ensureVirtApi(store, ADDRESS);
  return store;
}

/** The parts of a webhook that decide when the API server calls it. */
interface Webhook {
  readonly name: string;
  readonly failurePolicy: string;
  readonly matchConditions?: readonly { readonly name: string }[];
  readonly rules: readonly { readonly resources: readonly string[]; readonly scope: string }[];
}

async function webhooksOf(type: ResourceType<AnyObject>): Promise<readonly Webhook[]> {
  const store = await storeWithVirtApi();
  const configuration = await store.find(type, { name: names.SERVICES_NAMESPACE });
  // As ensureVirtApi writes them.
  return (configuration?.["webhooks"] ?? []) as readonly Webhook[];
}

test("each of Patchbay's kinds has a definition", async () => {
  const store = createFakeStore();
  await ensureKinds(store);
  const { items } = await store.list(CRDS);
  const want = customResourceDefinitions().map(({ metadata }) => metadata.name);
  expect(items.map(({ metadata }) => metadata.name).toSorted()).toEqual(want.toSorted());
});

test.each([true, false])("the KubeVirt object has useEmulation: %s", async (useEmulation) => {
  const store = createFakeStore();
  await ensureKubeVirt(store, useEmulation);
  const key = { namespace: names.SERVICES_NAMESPACE, name: "kubevirt" };
  expect(await store.find(KUBEVIRTS, key)).toMatchObject({
    spec: { configuration: { developerConfiguration: { useEmulation } } },
  });
});

describe("virt-api", () => {
  test("has a Service for its port on this machine", async () => {
    const store = await storeWithVirtApi();
    expect(await store.find(SERVICES, SERVICE_KEY)).toMatchObject({
      spec: { ports: [{ name: "https", port: 443, targetPort: 8443, protocol: "TCP" }] },
    });
    expect(await store.find(ENDPOINTS, SERVICE_KEY)).toMatchObject({
      subsets: [
        {
          addresses: [{ ip: "127.0.0.1" }],
          ports: [{ name: "https", port: 8443, protocol: "TCP" }],
        },
      ],
    });
  });

  test.each(["v1", "v1alpha3"])("serves subresources in %s", async (version) => {
    const store = await storeWithVirtApi();
    const name = `${version}.${names.SUBRESOURCES_GROUP}`;
    expect(await store.find(API_SERVICES, { name })).toMatchObject({
      spec: {
        group: names.SUBRESOURCES_GROUP,
        version,
        service: { ...SERVICE_KEY, port: 443 },
        caBundle: CA,
      },
    });
  });

  test("is called at its own address, with the CA of its certificate", async () => {
    const [webhook] = await webhooksOf(MUTATING);
    expect(webhook).toMatchObject({
      name: "mutate.virt-api.patchbay.io",
      clientConfig: { url: "https://127.0.0.1:8443/mutate", caBundle: CA },
      rules: [
        {
          apiGroups: [names.KUBEVIRT_GROUP],
          apiVersions: ["v1"],
          operations: ["CREATE", "UPDATE"],
          resources: ["virtualmachines", "virtualmachineinstances"],
          scope: "Namespaced",
        },
      ],
      failurePolicy: "Fail",
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
      timeoutSeconds: 10,
    });
  });

  test("blocks writes on failure of validating webhooks, but not of warning webhooks", async () => {
    const all = await webhooksOf(VALIDATING);
    const policies = all.map(({ name, failurePolicy }) => [name.split(".")[0], failurePolicy]);
    expect(Object.fromEntries(policies)).toEqual({
      validate: "Fail",
      guard: "Fail",
      networks: "Ignore",
      launcher: "Fail",
      instancetypes: "Fail",
      "data-volumes": "Fail",
      migrations: "Fail",
      evictions: "Ignore",
      refused: "Fail",
      "refused-pools": "Fail",
      "refused-exports": "Fail",
    });
  });

  test.each([
    { name: "validate", want: ["spec-changed"] },
    { name: "guard", want: ["by-virt-handler"] },
    { name: "networks", want: undefined },
  ])("is called by $name only under the conditions $want", async ({ name, want }) => {
    const all = await webhooksOf(VALIDATING);
    const webhook = all.find((one) => one.name === `${name}.virt-api.patchbay.io`);
    expect(webhook?.matchConditions?.map((condition) => condition.name)).toEqual(want);
    expect(webhook !== undefined && "matchConditions" in webhook).toBe(want !== undefined);
  });

  test("is called for cluster-scoped objects by the webhook of instance types", async () => {
    const all = await webhooksOf(VALIDATING);
    const ofCluster = all.filter(({ rules }) => rules.some(({ scope }) => scope === "*"));
    expect(ofCluster.map(({ name }) => name)).toEqual(["instancetypes.virt-api.patchbay.io"]);
    expect(ofCluster[0]?.rules[0]?.resources).toEqual([
      "virtualmachineinstancetypes",
      "virtualmachineclusterinstancetypes",
      "virtualmachinepreferences",
      "virtualmachineclusterpreferences",
    ]);
  });

  test.each([
    { name: "launcher", want: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE } },
    { name: "validate", want: undefined },
    { name: "evictions", want: undefined },
  ])("is called by $name for objects with labels $want", async ({ name, want }) => {
    const all = await webhooksOf(VALIDATING);
    const webhook = all.find((one) => one.name === `${name}.virt-api.patchbay.io`);
    const selector = want === undefined ? undefined : { matchLabels: want };
    expect(webhook).toHaveProperty("name");
    expect(webhook).toEqual({ ...webhook, ...(selector && { objectSelector: selector }) });
    expect(webhook !== undefined && "objectSelector" in webhook).toBe(want !== undefined);
  });
});
