// SPDX-License-Identifier: Apache-2.0
// A tenant who may edit a namespace: forged statuses, and text that becomes XML.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
const PODS = "/api/v1/namespaces/default/pods";
const BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const BLUE = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const GROUP = "rbac.authorization.k8s.io";

let machine: VirtApiMachine;
let tenant: Person;

function vmi(name: string, iface: object, network = "nic1"): object {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name },
    spec: {
      domain: { devices: { interfaces: [{ name: "nic1", bridge: {}, ...iface }] } },
      networks: [{ name: network, multus: { networkName: "default/blue" } }],
    },
  };
}

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  const { api } = machine;
  await api.post(BINDINGS, {
    metadata: { name: "tenant" },
    roleRef: { apiGroup: GROUP, kind: "ClusterRole", name: "edit" },
    subjects: [{ kind: "User", name: "tenant", apiGroup: GROUP }],
  });
  await api.post(BLUE, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "blue" },
    spec: { config: '{"cniVersion":"1.0.0","type":"bridge"}' },
  });
  tenant = await machine.person("tenant");
});
afterAll(() => machine[Symbol.asyncDispose]());

test("attack 48: a tenant cannot write the status of a VM, a VMI or a pod", async () => {
  await machine.makeVm("default", "a", "02:00:00:00:00:0a");
  expect(await tenant.ask("POST", VMIS, vmi("b", {}))).toMatchObject({ code: 201 });
  const containers = [{ name: "c", image: "c:1" }];
  const pod = { metadata: { name: "p" }, spec: { containers } };
  expect(await tenant.ask("POST", PODS, pod)).toMatchObject({ code: 201 });
  const forged = { status: { phase: "Running", nodeName: "elsewhere", activePods: { x: "y" } } };
  for (const path of [`${VMS}/a`, `${VMIS}/b`, `${PODS}/p`]) {
    expect(await tenant.ask("PATCH", `${path}/status`, forged)).toMatchObject({ code: 403 });
    const whole = await tenant.ask("PATCH", path, forged);
    expect(whole.body.status?.["nodeName"]).toBeUndefined();
  }
});

test("attack 83: a tenant cannot set a launcher's networks and addresses", async () => {
  const spec = { containers: [{ name: "compute", image: "c:1" }] };
  const metadata = { name: "launcher", labels: { "kubevirt.io": "virt-launcher" } };
  const path = `${PODS}/launcher`;
  expect((await tenant.ask("POST", PODS, { metadata, spec })).code).toBe(201);
  const forged = [{ name: "cbr0", interface: "eth0", default: true, ips: ["10.88.0.1"] }];
  const output = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(forged) };
  const write = async (who: Person, at: string, text: object) =>
    (await who.ask("PATCH", at, { metadata: text })).code;
  expect(await write(tenant, path, { annotations: output })).toBe(403);
  expect(await write(tenant, path, { labels: { "kubevirt.io": null } })).toBe(403);
  expect(await write(tenant, path, { annotations: { "my.example/note": "x" } })).toBe(200);
  const create = async (name: string, labels: object) =>
    (await tenant.ask("POST", PODS, { metadata: { name, labels, annotations: output }, spec }))
      .code;
  expect(await create("forged", metadata.labels)).toBe(403);
  expect(await create("plain", {})).toBe(201);
  expect(await write(tenant, `${PODS}/plain`, { labels: metadata.labels })).toBe(403);
  const agent = await machine.person("system:serviceaccount:patchbay:net-agent");
  expect(await write(agent, `${path}/status`, { annotations: output })).toBe(200);
});

const HOSTILE = "x'/><hostdev mode='subsystem'/><a b='";

test.each([
  { what: "a MAC", iface: { macAddress: `02:00:00:00:00:01${HOSTILE}` } },
  { what: "a MAC followed by a second line", iface: { macAddress: "02:00:00:00:00:01\n" } },
  { what: "a model", iface: { model: `virtio${HOSTILE}` } },
  { what: "a PCI address", iface: { pciAddress: `0000:01:00.0${HOSTILE}` } },
  { what: "a boot order", iface: { bootOrder: HOSTILE } },
  { what: "an ACPI index", iface: { acpiIndex: HOSTILE } },
  { what: "a name", iface: { name: HOSTILE }, network: HOSTILE },
])("attack 50: rejects XML in $what of an interface", async ({ iface, network }) => {
  const answer = await tenant.ask("POST", VMIS, vmi("c", iface, network));
  expect(answer).toMatchObject({ code: 422 });
  expect(answer.body.message).toMatch(/interface|network/i);
});

test("attack 99: rejects a name too long for derived names and reports the maximum length", async () => {
  const long = vmi("v".repeat(253), {});
  const refused = await tenant.ask("POST", VMIS, long);
  expect(refused).toMatchObject({ code: 422 });
  expect(refused.body.message).toContain("metadata.name must be no more than 134 bytes");
  expect(await tenant.ask("POST", VMIS, vmi("v".repeat(134), {}))).toMatchObject({ code: 201 });
});
