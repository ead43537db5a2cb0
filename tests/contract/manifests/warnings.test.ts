// SPDX-License-Identifier: Apache-2.0
// Warnings for authors of objects that are stored but cannot work: virt-api behind the API server.
import { afterAll, beforeAll, expect, test } from "vitest";
import { VirtApiMachine, type Person } from "../../attacks/virt-api-machine.ts";

const NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const VMS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const DATA_VOLUMES =
  "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/datavolumes.cdi.kubevirt.io";

let machine: VirtApiMachine;
let person: Person;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  person = await machine.person("admin", ["system:masters"]);
});
afterAll(() => machine[Symbol.asyncDispose]());

function nad(name: string, config: string): object {
  const metadata = { name };
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: "k8s.cni.cncf.io/v1", kind, metadata, spec: { config } };
}

const GOOD = '{"cniVersion":"1.0.0","type":"bridge"}';

test.each([
  { name: "good", config: GOOD, want: /^$/ },
  {
    name: "broken",
    config: '{"cniVersion":"1.0.0",\n"type":"bridge"',
    want: /NetworkAttachmentDefinition default\/broken is stored.*spec\.config: is not a JSON object: .*line 2 column 16/,
  },
  { name: "typeless", config: '{"cniVersion":"1.0.0"}', want: /neither type nor plugins/ },
  {
    name: "empty",
    config: "",
    want: /empty has no spec\.config: .* only on nodes with a file that defines a network/,
  },
])("stores a network and warns its author: $name", async ({ name, config, want }) => {
  const answer = await person.ask("POST", NADS, nad(name, config));
  expect(answer.code).toBe(201);
  expect(answer.warning).toMatch(want);
});

test("does not warn authors who correct or only label the network", async () => {
  await person.ask("POST", NADS, nad("mended", "{"));
  const labelled = { metadata: { labels: { a: "b" } } };
  expect((await person.ask("PATCH", `${NADS}/mended`, labelled)).warning).toBe("");
  const repaired = await person.ask("PATCH", `${NADS}/mended`, { spec: { config: GOOD } });
  expect(repaired).toMatchObject({ code: 200, warning: "" });
});

test("stores a VM with DataVolumes where no server handles them, and warns its author", async () => {
  // As on a cluster without CDI.
  expect(await person.ask("DELETE", DATA_VOLUMES)).toMatchObject({ code: 200 });
  const devices = { disks: [{ name: "root", disk: { bus: "virtio" } }] };
  const volumes = [{ name: "root", dataVolume: { name: "root" } }];
  const domain = { memory: { guest: "64Mi" }, devices };
  const vm = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "imported" },
    spec: {
      runStrategy: "Halted",
      template: { spec: { domain, volumes } },
      dataVolumeTemplates: [
        { metadata: { name: "root" }, spec: { pvc: {}, source: { blank: {} } } },
      ],
    },
  };
  const answer = await person.ask("POST", VMS, vm);
  expect(answer.code).toBe(201);
  expect(answer.warning).toMatch(/cannot be started: the DataVolume root cannot be created: .*CDI/);
});
