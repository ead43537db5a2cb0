// SPDX-License-Identifier: Apache-2.0
// The default NIC of a VM without NICs. Source of the rows: KubeVirt pkg/network/vmispec SetDefaultNetworkInterface.
import {
  CLUSTER_PREFERENCES,
  networkConfigOf,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { admissionRequest, BLUE } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { mutate } from "./mutate.ts";

const TEMPLATE = "/spec/template/spec";
const NETWORKS = { op: "add", path: `${TEMPLATE}/networks`, value: [{ name: "default", pod: {} }] };
const BRIDGED = [{ name: "default", bridge: {} }];
const INTERFACES = `${TEMPLATE}/domain/devices/interfaces`;

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function vmOf(spec: VmiSpec, more: Partial<VirtualMachine["spec"]> = {}): VirtualMachine {
  return aVm({ template: { spec }, ...more });
}

const BARE = vmOf({ domain: {} });
const WITH_NIC = aVm();
const MASQUERADE = {
  apiVersion: "kubevirt.io/v1",
  kind: "KubeVirt",
  metadata: { name: "kubevirt" },
  spec: { configuration: { network: { defaultNetworkInterface: "masquerade" as const } } },
};

async function patchOf(
  object: VirtualMachine | VirtualMachineInstance,
  old?: VirtualMachine,
  user?: string,
): Promise<unknown> {
  const verdict = await mutate(depsOn(store), admissionRequest(object, old, user));
  return verdict.allowed ? verdict.patch : verdict;
}

describe("a new VM", () => {
  test.each<{ name: string; vm: VirtualMachine; want: unknown }>([
    {
      name: "without devices gets the pod network",
      vm: BARE,
      want: [
        NETWORKS,
        { op: "add", path: `${TEMPLATE}/domain/devices`, value: { interfaces: BRIDGED } },
      ],
    },
    {
      name: "with empty lists gets the pod network",
      vm: vmOf({ domain: { devices: { rng: {}, interfaces: [] } }, networks: [] }),
      want: [NETWORKS, { op: "add", path: INTERFACES, value: BRIDGED }],
    },
    {
      name: "that opts in gets the pod network",
      vm: vmOf({ domain: { devices: { autoattachPodInterface: true } } }),
      want: [NETWORKS, { op: "add", path: INTERFACES, value: BRIDGED }],
    },
    {
      name: "that opts out gets no NIC",
      vm: vmOf({ domain: { devices: { autoattachPodInterface: false } } }),
      want: [],
    },
    { name: "with a NIC gets no further NIC", vm: WITH_NIC, want: [] },
    {
      name: "with a network gets no NIC",
      vm: vmOf({ domain: {}, networks: [BLUE] }),
      want: [],
    },
  ])("$name", async ({ vm, want }) => {
    expect(await patchOf(vm)).toEqual(want);
  });

  test("gets the default NIC with the cluster's binding", async () => {
    const deps = depsOn(store, { networkConfig: () => networkConfigOf(MASQUERADE) });
    const interfaces = [{ name: "default", masquerade: {} }];
    expect(await mutate(deps, admissionRequest(BARE))).toMatchObject({
      patch: [NETWORKS, { value: { interfaces } }],
    });
  });

  test("gets no NIC if its preference opts out, unless the VM opts in", async () => {
    store.put(CLUSTER_PREFERENCES, {
      apiVersion: "instancetype.kubevirt.io/v1beta1",
      kind: CLUSTER_PREFERENCES.kind,
      metadata: { name: "linux" },
      spec: { devices: { preferredAutoattachPodInterface: false } },
    });
    const preference = { name: "linux", kind: CLUSTER_PREFERENCES.kind };
    expect(await patchOf(vmOf({ domain: {} }, { preference }))).toEqual([]);
    const wants = { domain: { devices: { autoattachPodInterface: true } } };
    expect(await patchOf(vmOf(wants, { preference }))).toHaveLength(2);
    const unknown = { ...preference, name: "none" };
    expect(await patchOf(vmOf({ domain: {} }, { preference: unknown }))).toHaveLength(2);
  });
});

describe("an update of a VM", () => {
  test("retains the default NIC if a manifest without NICs is applied again, with a warning", async () => {
    expect(await mutate(depsOn(store), admissionRequest(BARE, WITH_NIC))).toEqual({
      allowed: true,
      warnings: [
        "the VM declares no interfaces, so it keeps its interface on the pod network; set autoattachPodInterface: false to remove it",
      ],
      patch: [
        NETWORKS,
        { op: "add", path: `${TEMPLATE}/domain/devices`, value: { interfaces: BRIDGED } },
      ],
    });
  });

  test("removes the default NIC if the VM opts out", async () => {
    const none = vmOf({ domain: { devices: { autoattachPodInterface: false } } });
    expect(await patchOf(none, WITH_NIC)).toEqual([]);
  });

  test("adds no NIC to a VM that had no NIC or another one", async () => {
    const changed = vmOf({ domain: {} }, { runStrategy: "Halted" });
    expect(await patchOf(changed, BARE)).toEqual([]);
    const blue = vmOf({
      domain: { devices: { interfaces: [{ name: "nic1", bridge: {} }] } },
      networks: [BLUE],
    });
    expect(await patchOf(changed, blue)).toEqual([]);
  });

  test("is not changed for Patchbay's own services", async () => {
    const user = "system:serviceaccount:patchbay:virt-controller";
    expect(await patchOf(BARE, WITH_NIC, user)).toEqual([]);
  });
});

test("a VMI without a VM gets the default NIC; a VMI of a VM copies its VM", async () => {
  const bare = { ...aVmi("alone"), spec: { domain: {} } };
  expect(await patchOf(bare)).toEqual([
    { ...NETWORKS, path: "/spec/networks" },
    { op: "add", path: "/spec/domain/devices", value: { interfaces: BRIDGED } },
  ]);
  const user = "system:serviceaccount:patchbay:virt-controller";
  expect(await patchOf({ ...aVmi(), spec: { domain: {} } }, undefined, user)).toEqual([]);
});
