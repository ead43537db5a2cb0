// SPDX-License-Identifier: Apache-2.0
// Which of a plug's writes call virt-api, through the manifests' webhooks with their match conditions.
import { customResourceDefinitions } from "@patchbay/api";
import { buildConditions, parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { aVm, aVmi, eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWebhook, type Backend } from "../apiserver/backend.ts";
import { startHarness, type Harness } from "../apiserver/harness.ts";
import { byUrl, REGISTRATION } from "../apiserver/webhooks/configuration.ts";

const GROUP = "/apis/kubevirt.io/v1/namespaces/default";
const VM = `${GROUP}/virtualmachines/vm1`;
const VMI = `${GROUP}/virtualmachineinstances/vm1`;
const NIC = { name: "one", bridge: {}, macAddress: "02:00:00:00:00:01" };
const NICS = {
  networks: [{ name: "one", multus: { networkName: "blue" } }],
  domain: { devices: { interfaces: [NIC] } },
};

let api: Harness;
let hook: Backend;
const observed: string[] = [];

interface Configuration {
  readonly kind: string;
  readonly webhooks?: readonly { readonly name: string }[];
}

/** The webhooks as `patchbay install` writes them, with another address. */
async function configure(): Promise<void> {
  const manifests = parseManifests(await readManifests(createFiles(), "base"));
  for (const object of manifests) {
    const { kind, webhooks } = object as unknown as Configuration;
    if (webhooks === undefined) continue;
    const requested = webhooks.map((webhook) => ({
      ...webhook,
      ...byUrl(api, hook),
      matchConditions: buildConditions(webhook.name),
    }));
    const path = `${REGISTRATION}/${kind.toLowerCase()}s`;
    await api.post(path, { ...object, webhooks: requested });
  }
}

beforeAll(async () => {
  api = await startHarness();
  hook = await startWebhook(api.authority, ({ userInfo, resource, subResource, operation }) => {
    const what = [resource.resource, ...(subResource === undefined ? [] : [subResource])].join("/");
    observed.push(`${userInfo.username.split(":").at(-1) ?? ""} ${operation} ${what}`);
    return { allowed: true };
  });
  for (const definition of customResourceDefinitions()) {
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
  }
  await eventually(async () => (await api.get(`${GROUP}/virtualmachines`)).code === 200, {
    withinMs: 5000,
  });
  for (const object of [aVm(), aVmi({ status: { phase: "Running" } })]) {
    const { name, namespace } = object.metadata;
    const path = object.kind === "VirtualMachine" ? VM : VMI;
    const made = { ...object, metadata: { name, namespace } };
    await api.post(path.replace("/vm1", ""), made);
  }
  await configure();
});

afterAll(async () => {
  await hook[Symbol.asyncDispose]();
  await api.close();
});

async function write(account: string, path: string, body: object): Promise<void> {
  const user = account === "jane" ? account : `system:serviceaccount:patchbay:${account}`;
  const { code } = await api.ask("PATCH", path, {
    body,
    type: "application/merge-patch+json",
    headers: { "impersonate-user": user, "impersonate-group": "system:masters" },
  });
  expect(code).toBe(200);
}

test("a plug's four control plane writes and two node writes cause four webhook calls", async () => {
  observed.length = 0;
  await write("virt-api", VM, { spec: { template: { spec: NICS } } });
  await write("virt-controller", VMI, { spec: NICS });
  await write("virt-controller", `${VMI}/status`, { status: { attachments: [] } });
  await write("virt-handler", `${VMI}/status`, { status: { interfaces: [{ name: "one" }] } });
  await write("virt-handler", `${VMI}/status`, { status: { interfaces: [] } });
  await write("virt-controller", `${VM}/status`, { status: { ready: true } });
  expect(observed).toEqual([
    "virt-api UPDATE virtualmachines",
    "virt-controller UPDATE virtualmachineinstances",
    "virt-handler UPDATE virtualmachineinstances/status",
    "virt-handler UPDATE virtualmachineinstances/status",
  ]);
});

test("defaults and validates user writes, except labels", async () => {
  observed.length = 0;
  await write("jane", VM, { metadata: { labels: { a: "b" } } });
  await write("jane", VM, { spec: { runStrategy: "Halted" } });
  expect(observed).toEqual(["jane UPDATE virtualmachines", "jane UPDATE virtualmachines"]);
});
