// SPDX-License-Identifier: Apache-2.0
// PCIe ports: a VM accepts as many NICs as it has ports, rejects one more before any change, and a restart changes no
// address and no MAC.
import type { IfaceStatus } from "@patchbay/api";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALL_MS, guestNics, restart } from "../guest.ts";
import {
  addInterface,
  appendOperations,
  CHANGE_MS,
  ifaceStatus,
  machine,
  removeInterface,
  SUBRESOURCES,
} from "../machine.ts";

const VM = "wide";
const BASE = "/spec/template/spec";

function inOrder(left = "", right = ""): number {
  return left < right ? -1 : 1;
}

function names(count: number): readonly string[] {
  return Array.from({ length: count }, (_unused, index) => `n${String(index)}`);
}

function statuses(vm: string): readonly IfaceStatus[] {
  return machine.findVmi(vm)?.status?.interfaces ?? [];
}

function readyCount(vm: string): number {
  return statuses(vm).filter(({ hotplug }) => hotplug?.phase === "Ready").length;
}

function addressesOf(vm: string): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    statuses(vm).map(({ name = "", pciAddress }) => [name, pciAddress] as const),
  );
}

/** Declares the NICs; returns kubectl's warnings. */
function plugAll(vm: string, nics: readonly string[]): string {
  const operations = nics.flatMap((name) => appendOperations(BASE, { name, network: "red" }));
  const patch = ["--type=json", "-p", JSON.stringify(operations)];
  const { code, stderr } = machine.try(["kubectl", "patch", "vm", vm, ...patch]);
  if (code !== 0) throw new Error(stderr);
  return stderr;
}

/** The MAC of the pod network's iface, which the manifest omits. */
function ownMac(vm: string): string | undefined {
  const ifaces = machine.findVm(vm)?.spec.template.spec.domain.devices?.interfaces ?? [];
  return ifaces.find(({ name }) => name === "default")?.macAddress;
}

/** PCI addresses of the guest's NICs. */
async function guestAddresses(vm: string): Promise<readonly string[]> {
  return (await guestNics(vm)).map(({ pciAddress }) => pciAddress);
}

async function guestSees(vm: string, count: number): Promise<boolean> {
  return (await guestAddresses(vm)).length === count;
}

function podAnnotation(vm: string): string {
  return machine.kubectl(
    "get",
    "pods",
    "-l",
    `vm.kubevirt.io/name=${vm}`,
    "-o",
    "jsonpath={.items[*].metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/networks}",
  );
}

describe("a VM with the default ports", () => {
  beforeAll(async () => {
    machine.apply(vmManifest({ name: VM }));
    await machine.booted(VM);
  });

  afterAll(() => {
    machine.delete("vm", VM);
  });

  test("accepts 32 NICs, all of which the guest sees", async () => {
    expect(machine.findVmi(VM)?.status?.pciePorts).toEqual({ total: 34, free: 32 });
    plugAll(VM, names(32));
    await eventually(() => readyCount(VM) === 33, { withinMs: ALL_MS });
    expect(machine.findVmi(VM)?.status?.pciePorts).toEqual({ total: 34, free: 0 });
    const reported = Object.values(addressesOf(VM)).sort(inOrder);
    await eventually(() => guestSees(VM, 33), { withinMs: CHANGE_MS });
    expect(await guestAddresses(VM)).toEqual(reported);
  });

  test("rejects the 33rd with the numbers and the setting, and creates nothing for it", () => {
    const before = podAnnotation(VM);
    const path = `${SUBRESOURCES}/virtualmachines/${VM}/addinterface`;
    const body = { name: "late", networkAttachmentDefinitionName: "red" };
    const { code, stderr } = machine.put(path, body);
    expect(code).not.toBe(0);
    expect(stderr).toContain("0 of 34 PCIe ports");
    expect(stderr).toContain("spec.domain.devices.pcieRootPorts");
    expect(podAnnotation(VM)).toBe(before);
  });

  test("a declared NIC waits and is plugged when a port is free", async () => {
    const before = podAnnotation(VM);
    expect(plugAll(VM, ["late"])).toMatch(/^Warning: .*"late" waits .*0 of 34 PCIe ports/m);
    const waiting = await eventually(
      () => {
        const status = ifaceStatus(VM, "late");
        return status?.hotplug?.reason === "NoFreePciePort" ? status : undefined;
      },
      { withinMs: CHANGE_MS },
    );
    expect(waiting.hotplug?.phase).toBe("Pending");
    expect(waiting.hotplug?.message).toContain("0 of 34 PCIe ports");
    expect(podAnnotation(VM)).toBe(before);
    const freed = ifaceStatus(VM, "n7")?.pciAddress;
    removeInterface(VM, "n7");
    const plugged = await eventually(
      () => {
        const status = ifaceStatus(VM, "late");
        return status?.hotplug?.phase === "Ready" ? status : undefined;
      },
      { withinMs: ALL_MS },
    );
    expect(plugged.pciAddress).toBe(freed);
    // Its port is free before its pod has detached it.
    await eventually(() => ifaceStatus(VM, "n7") === undefined, { withinMs: CHANGE_MS });
  });

  test("has each NIC at the same address with the same MAC after a restart", async () => {
    const [before, nics] = [addressesOf(VM), await guestNics(VM)];
    await restart(VM);
    await eventually(() => readyCount(VM) === 33, { withinMs: ALL_MS });
    expect(addressesOf(VM)).toEqual(before);
    expect(await guestNics(VM)).toEqual(nics);
    expect(await guestAddresses(VM)).toEqual(Object.values(before).sort(inOrder));
    expect(ownMac(VM)).toBeUndefined();
  });

  test("unplugs all of them", async () => {
    for (const name of names(32).filter((each) => each !== "n7")) {
      removeInterface(VM, name);
    }
    removeInterface(VM, "late");
    await eventually(() => statuses(VM).length === 1, { withinMs: ALL_MS });
    expect(await guestAddresses(VM)).toHaveLength(1);
  });
});

describe("the number of ports", () => {
  afterAll(() => {
    machine.deleteIfPresent("vm", "none", "one", "most");
  });

  test.each([
    { value: -1, says: /pcieRootPorts/ },
    { value: 129, says: /pcieRootPorts/ },
  ])("rejects $value", ({ value, says }) => {
    const manifest = vmManifest({ name: "bad", pcieRootPorts: value, running: false });
    expect(() => {
      machine.apply(manifest);
    }).toThrow(says);
  });

  test("can be zero: plugs are rejected with the next step", async () => {
    machine.apply(vmManifest({ name: "none", pcieRootPorts: 0 }));
    await machine.booted("none");
    expect(() => {
      addInterface("none", { name: "red1", network: "red" });
    }).toThrow(/0 of 2 PCIe ports/);
    machine.delete("vm", "none");
  });

  test("can be one: the second of two requests is rejected", async () => {
    machine.apply(vmManifest({ name: "one", pcieRootPorts: 1 }));
    await machine.booted("one");
    addInterface("one", { name: "red1", network: "red" });
    // The first request is still pending: its port is reserved.
    expect(() => {
      addInterface("one", { name: "red2", network: "red" });
    }).toThrow(/promised to interfaces that are being plugged|0 of 3 PCIe ports/);
    await eventually(() => readyCount("one") === 2, { withinMs: CHANGE_MS });
    machine.delete("vm", "one");
  });

  test("can be 128, and the last one works", async () => {
    machine.apply(vmManifest({ name: "most", pcieRootPorts: 128 }));
    await machine.booted("most");
    const nic = { name: "last", network: "red", pciAddress: "0000:82:00.0" };
    const operations = appendOperations(BASE, nic);
    machine.patch("vm", "most", operations);
    await eventually(() => readyCount("most") === 2, { withinMs: CHANGE_MS });
    await eventually(async () => (await guestAddresses("most")).includes("0000:82:00.0"), {
      withinMs: CHANGE_MS,
    });
    machine.delete("vm", "most");
  });
});

/** Sets the default ports of VMs; null: Patchbay's own. */
function setClusterDefault(pcieRootPorts: number | null): void {
  const spec = { configuration: { network: { pcieRootPorts } } };
  machine.kubectl(
    "patch",
    "kubevirt",
    "kubevirt",
    "-n",
    "patchbay",
    "--type=merge",
    "-p",
    JSON.stringify({ spec }),
  );
}

describe("the cluster's default", () => {
  afterAll(() => {
    setClusterDefault(null);
    machine.deleteIfPresent("vm", "narrow");
  });

  test("applies to a VM that starts afterwards, not to a running one", async () => {
    const before = machine.findVmi("beta");
    setClusterDefault(3);
    machine.apply(vmManifest({ name: "narrow" }));
    await machine.booted("narrow");
    expect(machine.findVmi("narrow")?.status?.pciePorts?.free).toBe(3);
    const after = machine.findVmi("beta");
    expect(after?.metadata.uid).toBe(before?.metadata.uid);
    expect(after?.status?.pciePorts).toEqual(before?.status?.pciePorts);
  });

  test("applies to an older VM when it is started again", async () => {
    setClusterDefault(5);
    await restart("narrow");
    expect(machine.findVmi("narrow")?.status?.pciePorts?.free).toBe(5);
  });
});

describe("a VM that was first started by an older version", () => {
  afterAll(() => {
    machine.deleteIfPresent("vm", "elder");
  });

  test("retains its original layout: nothing moves, nothing is added", async () => {
    const pciAddress = "0000:01:00.0";
    const pcieTopology = { version: 1, interfaces: [{ name: "default", pciAddress }] };
    machine.apply(vmManifest({ name: "elder", running: false, pcieRootPorts: FEW_PORTS }));
    machine.kubectl(
      "patch",
      "vm",
      "elder",
      "--subresource=status",
      "--type=merge",
      "-p",
      JSON.stringify({ status: { pcieTopology } }),
    );
    machine.patchbay("start", "elder");
    await machine.booted("elder");
    expect(await guestAddresses("elder")).toEqual([pciAddress]);
    expect(machine.findVmi("elder")?.status?.pciePorts).toEqual({
      total: FEW_PORTS + 1,
      free: FEW_PORTS,
    });
    expect(machine.findVm("elder")?.status?.pcieTopology).toEqual(pcieTopology);
  });
});

describe("a VM of two vCPUs with several queues", () => {
  afterAll(() => {
    machine.deleteIfPresent("vm", "queues");
  });

  test("has two queue pairs for each NIC, both initial and plugged", async () => {
    machine.apply(vmManifest({ name: "queues", cores: 2, pcieRootPorts: FEW_PORTS }));
    await machine.booted("queues");
    addInterface("queues", { name: "red1", network: "red" });
    await eventually(() => readyCount("queues") === 2, { withinMs: CHANGE_MS });
    expect(statuses("queues").map(({ queueCount }) => queueCount)).toEqual([2, 2]);
    await eventually(() => guestSees("queues", 2), { withinMs: CHANGE_MS });
  });
});

describe("a VM with requested addresses", () => {
  const NICS = [
    { name: "default", pciAddress: "0000:03:00.0" },
    { name: "old", network: "red", model: "e1000", pciAddress: "0000:02:01.0" },
  ];

  afterAll(() => {
    machine.deleteIfPresent("vm", "placed", "placed-first");
  });

  test("has its NIC in the first port, which devices of Patchbay would use otherwise", async () => {
    const pciAddress = "0000:01:00.0";
    const nics = [{ name: "default", pciAddress }];
    machine.apply(vmManifest({ name: "placed-first", nics, pcieRootPorts: FEW_PORTS }));
    await machine.booted("placed-first");
    expect(addressesOf("placed-first")).toEqual({ default: pciAddress });
    expect(await guestAddresses("placed-first")).toEqual([pciAddress]);
    await restart("placed-first");
    expect(await guestAddresses("placed-first")).toEqual([pciAddress]);
    machine.delete("vm", "placed-first");
  });

  test("has an e1000 in a conventional slot and the other NIC in its port, as the guest sees it", async () => {
    const options = { image: "full", pcieRootPorts: FEW_PORTS } as const;
    machine.apply(vmManifest({ name: "placed", nics: NICS, ...options }));
    await machine.booted("placed");
    await eventually(() => readyCount("placed") === 2, { withinMs: CHANGE_MS });
    expect(addressesOf("placed")).toEqual({ default: "0000:03:00.0", old: "0000:02:01.0" });
    await eventually(() => guestSees("placed", 2), { withinMs: CHANGE_MS });
    expect(await guestAddresses("placed")).toEqual(["0000:02:01.0", "0000:03:00.0"]);
  });

  test("rejects an address that the machine does not have", () => {
    const nics = [{ name: "default", pciAddress: "0000:01:01.0" }];
    expect(() => {
      machine.apply(vmManifest({ name: "placed-wrong", nics }));
    }).toThrow(/interfaces\[0\]\.pciAddress: 0000:01:01\.0: this bus has only slot 0/);
  });
});
