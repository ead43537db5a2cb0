// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine } from "@patchbay/api";
import type { NewVm } from "@patchbay/core/new-vm";
import { describe, expect, test } from "vitest";
import {
  toRequests,
  changeId,
  describeChange,
  newIfaceName,
  addChange,
  removeChange,
  type Change,
} from "./changes.ts";
import { printCommand, quote, printYaml } from "./commands.ts";
import { hasRight, type Right, type Rules } from "./rights.ts";
import { isRefusal, toVerdict, printMessage } from "./verdict.ts";

const unit = { key: "ns/a", namespace: "ns", name: "a", kind: "virtualmachines" } as const;
const plug: Change = { kind: "plug", unit, iface: "blue", network: "ns/blue" };
const move: Change = { kind: "move", unit, iface: "blue", network: "other/red" };
const pull: Change = { kind: "pull", unit, iface: "blue" };
const down: Change = { kind: "link", unit, iface: "blue", to: "down" };
const up: Change = { ...down, to: "up" };
const stop: Change = { kind: "power", unit, action: "stop" };
const order: NewVm = {
  namespace: "ns",
  name: "new",
  volumes: [{ name: "root", source: { image: "debian12" } }],
  size: { memory: "512Mi", cpus: 2 },
  instancetype: undefined,
  preference: undefined,
  userData: "#cloud-config\n",
  disks: [],
  networks: ["blue", "other/red"],
  macs: new Map(),
  isStopped: false,
};
const create: Change = { kind: "create", order };
const SPEC = {
  domain: { devices: { interfaces: [{ name: "default" }, { name: "blue", bridge: {} }] } },
  networks: [
    { name: "default", pod: {} },
    { name: "blue", multus: { networkName: "blue" } },
  ],
};
const vm: VirtualMachine = {
  apiVersion: "v1",
  kind: "VirtualMachine",
  metadata: { namespace: "ns", name: "a" },
  spec: { template: { spec: SPEC } },
};

describe("gathered changes", () => {
  test.each<{ name: string; given: readonly Change[]; want: readonly Change[] }>([
    {
      name: "network and link of one interface are both retained",
      given: [move, down],
      want: [move, down],
    },
    { name: "the last link of one interface wins", given: [down, move, up], want: [move, up] },
    { name: "an unplug replaces both", given: [move, down, pull], want: [pull] },
    { name: "a move replaces an unplug", given: [pull, move], want: [move] },
    {
      name: "a planned plug includes the link state",
      given: [plug, down],
      want: [{ ...plug, link: "down" }],
    },
    {
      name: "changes of interface and power are both retained",
      given: [move, stop],
      want: [move, stop],
    },
    { name: "an unplug of a planned NIC cancels the plug", given: [plug, pull], want: [] },
    {
      name: "a move of a pending plug changes its network",
      given: [plug, move],
      want: [{ ...plug, network: "other/red" }],
    },
    { name: "a VM that is created twice is planned once", given: [create, create], want: [create] },
  ])("$name", ({ given, want }) => {
    expect(given.reduce<readonly Change[]>(addChange, [])).toEqual(want);
  });

  test.each([
    {
      action: "pause",
      method: "PUT",
      path: "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/a/pause",
    },
    {
      action: "reset",
      method: "PUT",
      path: "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/a/reset",
    },
    {
      action: "softreboot",
      method: "PUT",
      path: "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/a/softreboot",
    },
    {
      action: "migrate",
      method: "PUT",
      path: "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/a/migrate",
    },
    {
      action: "delete",
      method: "DELETE",
      path: "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/a",
    },
  ] as const)("$action sends $method $path", ({ action, method, path }) => {
    expect(toRequests({ kind: "power", unit, action }, {})).toMatchObject([{ method, path }]);
  });

  test.each([
    { action: "softreboot", want: "a: soft reboot" },
    { action: "reset", want: "a: reset" },
    { action: "delete", want: "a: delete the VM; its claims stay" },
  ] as const)("$action is described as $want", ({ action, want }) => {
    expect(describeChange({ kind: "power", unit, action })).toBe(want);
  });

  test("can be dropped one by one", () => {
    expect(removeChange([move, stop], move)).toEqual([stop]);
    expect(new Set([plug, stop, create].map(changeId)).size).toBe(3);
  });

  test("a new interface is named after its network", () => {
    expect(newIfaceName("ns/blue", [])).toBe("blue");
    expect(newIfaceName("ns/blue", ["blue", "blue-2"])).toBe("blue-3");
  });
});

describe("toRequests", () => {
  const SUB = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/a";
  const VM = "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/a";
  test.each<{ name: string; change: Change; want: object }>([
    {
      name: "plug",
      change: plug,
      want: {
        method: "PUT",
        path: `${SUB}/addinterface`,
        body: { name: "blue", networkAttachmentDefinitionName: "blue" },
      },
    },
    {
      name: "pull",
      change: pull,
      want: { method: "PUT", path: `${SUB}/removeinterface`, body: { name: "blue" } },
    },
    { name: "power", change: stop, want: { method: "PUT", path: `${SUB}/stop`, body: {} } },
    {
      name: "move",
      change: move,
      want: {
        method: "PATCH",
        path: VM,
        contentType: "application/json-patch+json",
        body: [
          { op: "test", path: "/spec/template/spec/networks/1/name", value: "blue" },
          {
            op: "add",
            path: "/spec/template/spec/networks/1/multus/networkName",
            value: "other/red",
          },
        ],
      },
    },
    {
      name: "link",
      change: down,
      want: {
        method: "PATCH",
        path: VM,
        body: [
          {
            op: "test",
            path: "/spec/template/spec/domain/devices/interfaces/1/name",
            value: "blue",
          },
          {
            op: "add",
            path: "/spec/template/spec/domain/devices/interfaces/1/state",
            value: "down",
          },
        ],
      },
    },
  ])("$name", ({ change, want }) => {
    expect(toRequests(change, { vm })).toMatchObject([want]);
  });

  test("creates the claims and the VM before the secret, which the VM owns", () => {
    const withDisk = { ...order, disks: ["10Gi"] };
    expect(toRequests({ kind: "create", order: withDisk }, {}).map(({ path }) => path)).toEqual([
      "/api/v1/namespaces/ns/persistentvolumeclaims",
      "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines",
      "/api/v1/namespaces/ns/secrets",
    ]);
  });
});

describe("printCommand and printYaml", () => {
  test.each<{ name: string; change: Change; want: string }>([
    {
      name: "plug",
      change: plug,
      want: "kubectl patchbay addinterface a -n ns --network-attachment-definition-name ns/blue --name blue",
    },
    { name: "pull", change: pull, want: "kubectl patchbay removeinterface a -n ns --name blue" },
    { name: "power", change: stop, want: "kubectl patchbay stop a -n ns" },
    { name: "create", change: create, want: "kubectl apply -f vm.yaml" },
    {
      name: "delete",
      change: { kind: "power", unit, action: "delete" },
      want: "kubectl delete virtualmachine a -n ns",
    },
    {
      name: "soft reboot",
      change: { kind: "power", unit, action: "softreboot" },
      want: "kubectl patchbay soft-reboot a -n ns",
    },
    {
      name: "unplug from a VMI",
      change: { ...pull, unit: { ...unit, kind: "virtualmachineinstances" } },
      want: "kubectl patchbay removeinterface a -n ns --vmi --name blue",
    },
  ])("$name", ({ change, want }) => {
    expect(printCommand(change, { vm })).toBe(want);
  });

  test("quotes a patch as one shell word", () => {
    expect(printCommand(down, { vm })).toMatch(
      /^kubectl patch virtualmachine a -n ns --type=json -p '\[.*\]'$/,
    );
    expect(quote("it's; rm")).toBe(String.raw`'it'\''s; rm'`);
  });

  test.each<{ name: string; change: Change; want: readonly string[] }>([
    { name: "plug", change: plug, want: ["networkName: ns/blue"] },
    { name: "move", change: move, want: ["networkName: other/red"] },
    { name: "link", change: down, want: ["state: down"] },
    { name: "power", change: stop, want: ["runStrategy: Halted"] },
    { name: "create", change: create, want: ["kind: Secret", "---", "image: debian12"] },
  ])("YAML: $name", ({ change, want }) => {
    const text = printYaml(change, { vm });
    for (const part of want) expect(text).toContain(part);
  });

  test("omits a pulled interface from the YAML", () => {
    expect(printYaml(pull, { vm })).not.toContain("blue");
  });
});

describe("toVerdict", () => {
  const accepted = {
    status: 202,
    text: '{"kind":"Status","message":"interface will be plugged into the running guest"}',
    warnings: [],
  };
  const later = {
    ...accepted,
    text: '{"kind":"Status","message":"interface will be plugged when the VM starts"}',
  };
  const refused = {
    status: 409,
    text: '{"kind":"Status","message":"no","details":{"causes":[{"message":"why"},{"message":"no"}]}}',
    warnings: [],
  };
  test.each([
    { name: "takes effect at once", answer: accepted, isLive: true, want: "live" },
    {
      name: "takes effect later according to the server's warning",
      answer: later,
      isLive: true,
      want: "start",
    },
    {
      name: "takes effect later because the VM is not running",
      answer: accepted,
      isLive: false,
      want: "start",
    },
    { name: "refused", answer: refused, isLive: true, want: "refused" },
  ])("$name", ({ answer, isLive, want }) => {
    expect(toVerdict(plug, [answer], isLive).kind).toBe(want);
  });

  test("contains the message, causes and warnings", () => {
    expect(printMessage(refused)).toBe("no; why");
    expect(toVerdict(plug, [{ ...accepted, warnings: ["old"] }], true).text).toContain("; old");
    expect(toVerdict(stop, [accepted], false).kind).toBe("live");
  });

  test("handles answers that are an object or not JSON", () => {
    expect(
      printMessage({ status: 200, text: '{"kind":"VirtualMachine","message":"x"}', warnings: [] }),
    ).toBe("");
    expect(printMessage({ status: 502, text: "bad gateway", warnings: [] })).toBe("bad gateway");
    expect(printMessage({ status: 502, text: "null", warnings: [] })).toBe("");
    expect(isRefusal({ status: 502, text: "", warnings: [] })).toBe(true);
  });
});

describe("rights", () => {
  const right: Right = { verb: "update", group: "g", resource: "vms/add" };
  const rule = { verbs: ["update"], apiGroups: ["g"], resources: ["vms/add"] };
  test.each<{ name: string; rules: Rules; want: boolean }>([
    { name: "are granted by name", rules: { resourceRules: [rule] }, want: true },
    {
      name: "are granted by wildcards",
      rules: { resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }] },
      want: true,
    },
    {
      name: "are granted by a wildcard with the subresource",
      rules: { resourceRules: [{ ...rule, resources: ["*/add"] }] },
      want: true,
    },
    {
      name: "are not granted by the resource without its subresource",
      rules: { resourceRules: [{ ...rule, resources: ["vms"] }] },
      want: false,
    },
    {
      name: "are not granted by another verb",
      rules: { resourceRules: [{ ...rule, verbs: ["get"] }] },
      want: false,
    },
    {
      name: "are not granted by another group",
      rules: { resourceRules: [{ ...rule, apiGroups: [""] }] },
      want: false,
    },
    {
      name: "are assumed if the server's list of rules is incomplete",
      rules: { incomplete: true },
      want: true,
    },
  ])("$name", ({ rules, want }) => {
    expect(hasRight(rules, right)).toBe(want);
  });
});
