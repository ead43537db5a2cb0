// SPDX-License-Identifier: Apache-2.0
// The NIC of a VM that declares none. Source of the rows: KubeVirt pkg/network/vmispec SetDefaultNetworkInterface.
import {
  CLUSTER_PREFERENCES,
  networkConfigOf,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { asked, BLUE } from "../testing/admission.ts";
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
  const verdict = await mutate(depsOn(store), asked(object, old, user));
  return verdict.allowed ? verdict.patch : verdict;
}

describe("a new VM", () => {
  test.each<{ name: string; vm: VirtualMachine; want: unknown }>([
    {
      name: "without devices gets the pod's network",
      vm: BARE,
      want: [
        NETWORKS,
        { op: "add", path: `${TEMPLATE}/domain/devices`, value: { interfaces: BRIDGED } },
      ],
    },
    {
      name: "with empty lists gets it too",
      vm: vmOf({ domain: { devices: { rng: {}, interfaces: [] } }, networks: [] }),
      want: [NETWORKS, { op: "add", path: INTERFACES, value: BRIDGED }],
    },
    {
      name: "that says that it wants it gets it",
      vm: vmOf({ domain: { devices: { autoattachPodInterface: true } } }),
      want: [NETWORKS, { op: "add", path: INTERFACES, value: BRIDGED }],
    },
    {
      name: "that says that it wants none gets none",
      vm: vmOf({ domain: { devices: { autoattachPodInterface: false } } }),
      want: [],
    },
    { name: "that declares one gets no other", vm: WITH_NIC, want: [] },
    {
      name: "that declares a network gets no other",
      vm: vmOf({ domain: {}, networks: [BLUE] }),
      want: [],
    },
  ])("$name", async ({ vm, want }) => {
    expect(await patchOf(vm)).toEqual(want);
  });

  test("gets it bound as the cluster says", async () => {
    const deps = depsOn(store, { networkConfig: () => networkConfigOf(MASQUERADE) });
    const interfaces = [{ name: "default", masquerade: {} }];
    expect(await mutate(deps, asked(BARE))).toMatchObject({
      patch: [NETWORKS, { value: { interfaces } }],
    });
  });

  test("gets none where its preference says so, unless it says otherwise itself", async () => {
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

describe("a VM that is changed", () => {
  test("keeps it when its manifest that declares none is applied again, and is told so", async () => {
    expect(await mutate(depsOn(store), asked(BARE, WITH_NIC))).toEqual({
      allowed: true,
      warnings: [
        "the interface on the pod's network stays, as for every VM that declares none; set autoattachPodInterface: false to have none",
      ],
      patch: [
        NETWORKS,
        { op: "add", path: `${TEMPLATE}/domain/devices`, value: { interfaces: BRIDGED } },
      ],
    });
  });

  test("gives it up when it says so", async () => {
    const none = vmOf({ domain: { devices: { autoattachPodInterface: false } } });
    expect(await patchOf(none, WITH_NIC)).toEqual([]);
  });

  test("that had none, or another one, gets none", async () => {
    const changed = vmOf({ domain: {} }, { runStrategy: "Halted" });
    expect(await patchOf(changed, BARE)).toEqual([]);
    const blue = vmOf({
      domain: { devices: { interfaces: [{ name: "nic1", bridge: {} }] } },
      networks: [BLUE],
    });
    expect(await patchOf(changed, blue)).toEqual([]);
  });

  test("by one of our own services is as that wants it", async () => {
    const user = "system:serviceaccount:patchbay:virt-controller";
    expect(await patchOf(BARE, WITH_NIC, user)).toEqual([]);
  });
});

test("a new VMI without a VM gets it, one of a VM is as its VM says", async () => {
  const bare = { ...aVmi("alone"), spec: { domain: {} } };
  expect(await patchOf(bare)).toEqual([
    { ...NETWORKS, path: "/spec/networks" },
    { op: "add", path: "/spec/domain/devices", value: { interfaces: BRIDGED } },
  ]);
  const user = "system:serviceaccount:patchbay:virt-controller";
  expect(await patchOf({ ...aVmi(), spec: { domain: {} } }, undefined, user)).toEqual([]);
});
