// SPDX-License-Identifier: Apache-2.0
// NIC models: a q35 guest boots with each, accepts hot plugs of those that work in a port, and the others are rejected.
import { eventually, FEW_PORTS, type ManifestNic, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestNics, type GuestNic } from "../guest.ts";
import { virsh } from "../virsh.ts";
import {
  appendOperations,
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  removeInterface,
  SUBRESOURCES,
} from "../machine.ts";

const VM = "zoo";

const MODELS: readonly ManifestNic[] = [
  { name: "intel", model: "e1000", bootOrder: 2 },
  { name: "intel-pcie", model: "e1000e", acpiIndex: 7 },
  { name: "realtek", model: "rtl8139" },
  { name: "vmware", model: "vmxnet3" },
  { name: "novell", model: "ne2k_pci" },
  { name: "amd", model: "pcnet" },
].map((nic) => ({ ...nic, network: "red" }));

/** Models whose drivers need I/O ports, which a hotplug port lacks. */
const BESIDE_PORTS = ["novell", "amd"];

const PARTS = "instancetype.kubevirt.io/v1beta1";
const TINY = {
  apiVersion: PARTS,
  kind: "VirtualMachineClusterInstancetype",
  metadata: { name: "tiny" },
  spec: { cpu: { guest: 1 }, memory: { guest: "128Mi" } },
};
const OLD = {
  apiVersion: PARTS,
  kind: "VirtualMachinePreference",
  metadata: { name: "old", namespace: "default" },
  spec: { devices: { preferredInterfaceModel: "e1000e", preferredRng: {} } },
};

beforeAll(async () => {
  const nics = [{ name: "default", bootOrder: 1 }, ...MODELS];
  for (const object of [TINY, OLD]) machine.apply(object);
  const parts = { instancetype: { name: "tiny" }, preference: { name: "old", kind: OLD.kind } };
  machine.apply(vmManifest({ name: VM, image: "full", nics, parts, pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
  machine.kubectl("delete", "vmclusterinstancetype,vmpref", "tiny", "old", "--ignore-not-found");
});

/** Declares a NIC of each model; returns their names. */
function plug(...models: readonly string[]): readonly string[] {
  const nics = models.map((model) => ({ name: model.replace("_", "-"), model, network: "red" }));
  const operations = nics.flatMap((nic) => appendOperations("/spec/template/spec", nic));
  machine.patch("vm", VM, operations);
  return nics.map(({ name }) => name);
}

function printNic({ mac, pciAddress }: GuestNic): string {
  return `${mac} at ${pciAddress}`;
}

async function guestSees(nic: GuestNic, there = true): Promise<void> {
  await eventually(
    async () => {
      const observed = (await guestNics(VM)).map(printNic);
      if (observed.includes(printNic(nic)) === there) return true;
      throw new Error(`the guest sees ${observed.join(", ")}; ${printNic(nic)} is the question`);
    },
    { withinMs: CHANGE_MS },
  );
}

async function reported(name: string): Promise<GuestNic> {
  const { mac = "", pciAddress = "" } = await expectReady(VM, name);
  return { mac, pciAddress };
}

test("a guest starts with a NIC of each model, at the reported addresses", async () => {
  for (const { name } of MODELS) await guestSees(await reported(name));
  expect(await guestNics(VM)).toHaveLength(MODELS.length + 1);
  expect(machine.findVmi(VM)?.status?.pciePorts?.free).toBe(FEW_PORTS);
});

test("models that need I/O ports are on the root complex, all others in ports", () => {
  const onRoot = MODELS.map(({ name }) => name).filter(
    (name) => ifaceStatus(VM, name)?.pciAddress?.startsWith("0000:00:") === true,
  );
  expect(onRoot).toEqual(BESIDE_PORTS);
});

function modelOf(name: string): string | undefined {
  const devices = virsh(VM, "dumpxml").split("<interface ");
  const device = devices.find((xml) => xml.includes(`<alias name='ua-${name}'/>`));
  return /<model type='([^']+)'/.exec(device ?? "")?.[1];
}

test("a VM with an instancetype and a preference has their settings and is stored as written", () => {
  const { cpu, memory, devices } = machine.findVmi(VM)?.spec.domain ?? {};
  expect({ cpu, memory, rng: devices?.rng }).toEqual({
    cpu: { sockets: 1, cores: 1, threads: 1 },
    memory: { guest: "128Mi" },
    rng: {},
  });
  expect(modelOf("default")).toBe("e1000e");
  const path = "{.spec.template.spec.domain['cpu','memory']}{.status.instancetypeRef.name}";
  expect(machine.kubectl("get", "vm", VM, "-o", `jsonpath=${path}`)).toBe("tiny");
});

test("a NIC plugged later without a model uses the preferred model, also after a change of it", async () => {
  const changed = { ...OLD, spec: { devices: { preferredInterfaceModel: "rtl8139" } } };
  machine.apply(changed);
  const body = { name: "later", networkAttachmentDefinitionName: "red" };
  const path = `${SUBRESOURCES}/virtualmachines/${VM}/addinterface`;
  expect(machine.put(path, body)).toMatchObject({ code: 0 });
  await guestSees(await reported("later"));
  expect(modelOf("later")).toBe("e1000e");
  removeInterface(VM, "later");
  await expectGone(VM, "later");
});

test("a guest sees the ACPI index that an iface requests", async () => {
  const { mac } = await reported("intel-pcie");
  const line = await machine.console(VM).waitForLine(new RegExp(`nic added .* mac ${mac}`), {
    timeoutMs: CHANGE_MS,
    fromStart: true,
  });
  expect(line).toMatch(/ index 7$/);
});

test("models that work in a port are plugged and unplugged while the guest runs", async () => {
  const names = plug("e1000", "e1000e", "rtl8139", "vmxnet3");
  const nics = await Promise.all(names.map(reported));
  for (const nic of nics) await guestSees(nic);
  for (const name of names) removeInterface(VM, name);
  await Promise.all(names.map(async (name) => expectGone(VM, name)));
  for (const nic of nics) await guestSees(nic, false);
});

test("declared models that need I/O ports wait and state why", async () => {
  const names = plug("ne2k_pci", "pcnet");
  for (const name of names) {
    const { hotplug } = await eventually(
      () => {
        const status = ifaceStatus(VM, name);
        return status?.hotplug?.reason === "ModelNeedsIoPorts" ? status : undefined;
      },
      { withinMs: CHANGE_MS },
    );
    expect(hotplug?.message).toContain(`needs I/O ports`);
    removeInterface(VM, name);
    await expectGone(VM, name);
  }
});

test("rejects requests for models that need I/O ports", () => {
  const path = `${SUBRESOURCES}/virtualmachines/${VM}/addinterface`;
  const body = { name: "late", networkAttachmentDefinitionName: "red", model: "ne2k_pci" };
  const { code, stderr } = machine.put(path, body);
  expect(code).not.toBe(0);
  expect(stderr).toContain("model ne2k_pci needs I/O ports");
  expect(ifaceStatus(VM, "late")).toBeUndefined();
});

test("rejects an unknown model with the path of its field", () => {
  expect(() => plug("ne1000")).toThrow(
    /spec\.template\.spec\.domain\.devices\.interfaces\[7\]\.model/,
  );
});
