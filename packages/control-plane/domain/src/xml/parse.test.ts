// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { AGENT_CHANNEL, type DomainDefinition, type NicDefinition } from "../definition.ts";
import { findMachineFamily, printPciAddress } from "../pci/addresses.ts";
import { PLAIN_MACHINE } from "../testing/plain-machine.ts";
import { countPorts, freeAddresses } from "../pci/capacity.ts";
import { TOPOLOGY_VERSION, planTopology } from "../pci/topology.ts";
import { parseDomain, type DomainFacts } from "./parse.ts";
import { printDomain } from "./print/domain.ts";

interface Options {
  readonly machine?: string;
  readonly nics?: number;
  readonly version?: number;
  readonly change?: Partial<NicDefinition>;
}

function aDomain({
  machine = "q35",
  nics = 0,
  version = TOPOLOGY_VERSION,
  change = {},
}: Options): DomainDefinition {
  const names = Array.from({ length: nics }, (_unused, position) => `net${String(position)}`);
  const plan = planTopology({
    version,
    family: findMachineFamily(machine) ?? "q35",
    vcpus: 1,
    reserve: 8,
    devices: [],
    nics: names.map((name) => ({ name, model: "virtio", queues: 1 })),
    isOnRootComplex: false,
  });
  if (!plan.ok) throw new Error("no layout");
  const { ports, nicAddresses: addresses, fixedAddresses: fixed } = plan.topology;
  const pciAddress = fixed.get("guestAgent");
  return {
    name: "default_vm1",
    uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
    accelerator: "qemu",
    machine,
    vcpus: 1,
    memoryMiB: 128,
    sharesMemory: true,
    ...PLAIN_MACHINE,
    kernel: { path: "/run/kernel-boot/vmlinuz", args: "console=ttyS0 a=<b>&c" },
    nics: names.map((name, position) => ({
      alias: `ua-${name}`,
      mac: `02:00:00:00:00:0${String(position)}`,
      model: "virtio",
      queues: 1,
      tapName: `tap${String(position)}`,
      mtu: 1500,
      linkUp: position !== 1,
      pciAddress: addresses.get(name) ?? { bus: 0, slot: 0, function: 0 },
      ...change,
    })),
    ports,
    ...(pciAddress === undefined
      ? {}
      : { agent: { socketPath: "/run/launcher/agent.sock", pciAddress } }),
    console: { socketPath: "/run/launcher/serial0.sock", logPath: "/run/launcher/serial0.log" },
  };
}

function parsed(xml: string): DomainFacts {
  const result = parseDomain(xml);
  if (!result.ok) throw new Error(result.reason);
  return result.domain;
}

describe("a printed domain", () => {
  test.each([
    { machine: "q35", nics: 0, total: 9, first: "0000:02:00.0" },
    { machine: "q35", nics: 1, total: 10, first: "0000:03:00.0" },
    { machine: "q35", nics: 3, total: 12, first: "0000:05:00.0" },
    { machine: "pc", nics: 0, total: 30, first: "0000:00:03.0" },
    { machine: "pc", nics: 2, total: 30, first: "0000:00:05.0" },
  ])("$machine with $nics NICs has $total ports, the first free at $first", (row) => {
    const facts = parsed(printDomain(aDomain(row)));
    // The channel of the guest's agent has one.
    expect(countPorts(facts)).toEqual({ total: row.total, free: row.total - row.nics - 1 });
    expect(freeAddresses(facts).map(printPciAddress)[0]).toBe(row.first);
    expect(facts.nics.map(({ alias }) => alias)).toEqual(
      Array.from({ length: row.nics }, (_unused, position) => `ua-net${String(position)}`),
    );
  });

  test("parses the link state, the tap and the address of a NIC", () => {
    expect(parsed(printDomain(aDomain({ nics: 2 }))).nics[1]).toEqual({
      alias: "ua-net1",
      mac: "02:00:00:00:00:01",
      tapName: "tap1",
      pciAddress: { bus: 3, slot: 0, function: 0 },
      linkUp: false,
      model: "virtio-non-transitional",
      queues: 1,
      mtu: 1500,
    });
  });

  test("parses the number of vCPUs and whether memory is shared", () => {
    const { vcpus, sharesMemory } = parsed(printDomain(aDomain({})));
    expect({ vcpus, sharesMemory }).toEqual({ vcpus: 1, sharesMemory: true });
  });

  // What an older version made is made for ever.
  test.each<Options & { readonly golden: string }>([
    { golden: "q35-2-nics", nics: 2, version: 2 },
    { golden: "q35-2-nics-layout-1", nics: 2, version: 1 },
    { golden: "pc-1-nic", machine: "pc", nics: 1, version: 2 },
    { golden: "pc-1-nic-layout-1", machine: "pc", nics: 1, version: 1 },
    {
      golden: "q35-multi-queue",
      nics: 1,
      version: 2,
      change: { queues: 4, bootOrder: 1, acpiIndex: 7 },
    },
  ])("equals the golden file $golden", async ({ golden, ...options }) => {
    await expect(printDomain(aDomain(options))).toMatchFileSnapshot(`__golden__/${golden}.xml`);
  });

  test.each([
    { state: "connected", want: true },
    { state: "disconnected", want: false },
  ])("with agent state $state is parsed correctly", ({ state, want }) => {
    const xml = printDomain(aDomain({})).replace(
      `name="${AGENT_CHANNEL}"`,
      `name="${AGENT_CHANNEL}" state="${state}"`,
    );
    expect(parsed(xml).agentConnected).toBe(want);
  });

  test("escapes the kernel's arguments", () => {
    expect(printDomain(aDomain({}))).toContain("a=&lt;b&gt;&amp;c");
  });
});

function device(xml: string): string {
  return `<domain><devices>${xml}</devices></domain>`;
}

function nicAt(address: string): string {
  return device(`<interface><address type='pci' ${address}/></interface>`);
}

test("lists files and sockets except those of NICs and those that libvirt finds itself", () => {
  const devices = [
    "<emulator>/usr/bin/qemu</emulator>",
    "<disk><source file='/b'><x startupPolicy='/c'/></source><backingStore><source file='/d'/></backingStore></disk>",
    "<disk><source dev='/b'/></disk><interface><source path='/e'/></interface>",
    "<rng><backend model='random'>/dev/urandom</backend></rng>",
  ].join("");
  const os = "<os><type>hvm</type><kernel>/k</kernel><nvram template='/t'>/n</nvram></os>";
  const { paths } = parsed(`<domain>${os}<devices>${devices}</devices></domain>`);
  expect(paths).toEqual(["/b", "/c", "/dev/urandom", "/k", "/n", "/t"]);
});

test("ignores an address in a nested element of a device", () => {
  const source = "<source><address type='pci' bus='0x05' slot='0x00' function='0x0'/></source>";
  const own = "<address type='pci' bus='0x02' slot='0x00' function='0x0'/>";
  const facts = parsed(device(`<hostdev>${source}${own}</hostdev>`));
  expect(facts.pciAddresses).toEqual([{ bus: 2, slot: 0, function: 0 }]);
});

test("classifies devices other than NICs behind ports by kind", () => {
  const at = (bus: number): string => `<address type="pci" bus="0x0${String(bus)}"/>`;
  const devices = [
    `<disk>${at(1)}</disk><disk><address type="drive"/></disk>`,
    `<controller type="scsi">${at(2)}</controller><controller type="usb">${at(3)}</controller>`,
    `<controller type="toString">${at(4)}</controller><input>${at(5)}</input>`,
    `<rng>${at(6)}</rng><video>${at(0)}</video><interface>${at(7)}</interface>`,
  ].join("");
  expect(parsed(`<domain><devices>${devices}</devices></domain>`).devices).toEqual([
    "disk",
    "scsi",
    "usb",
    "other",
    "input",
    "other",
  ]);
});

describe("a domain that another program defined", () => {
  test("has the values of its elements", () => {
    const address = "<address type='pci' bus='0x03' slot='0x00' function='0x0'/>";
    const xml = `<domain>
      <os><type machine='pc-i440fx-7.2'>hvm</type></os>
      <vcpu placement='static'>4</vcpu>
      <devices>
        <controller type='pci' index='2' model='pcie-root-port'><target hotplug='off'/></controller>
        <controller type='usb' index='0' model='none'/>
        <controller type='pci' index='1'/>
        <disk><address type='drive' bus='7'/></disk>
        <rng/>
        <channel><target name='spice' state='connected'/></channel>
        <interface>
          <mac address='02:00:00:00:00:AB'/><target dev='tap1'/><alias name='ua-blue'/>
          <model type='e1000'/><driver queues='2'/><link state='up'/>${address}
        </interface>
        <interface/>
        <interface><link state='down'/></interface>
      </devices>
    </domain>`;
    expect(parsed(xml)).toStrictEqual({
      family: "pc",
      nics: [
        {
          alias: "ua-blue",
          mac: "02:00:00:00:00:ab",
          tapName: "tap1",
          pciAddress: { bus: 3, slot: 0, function: 0 },
          linkUp: true,
          model: "e1000",
          queues: 2,
        },
        { alias: "", mac: "", linkUp: false, model: "", queues: 1 },
      ],
      controllers: [
        { index: 1, model: "", hotplug: true },
        { index: 2, model: "pcie-root-port", hotplug: false },
      ],
      pciAddresses: [{ bus: 3, slot: 0, function: 0 }],
      devices: [],
      vcpus: 4,
      sharesMemory: false,
      agentConnected: false,
      paths: [],
    });
  });

  test("without elements has one vCPU and an unknown layout", () => {
    expect(parsed("<domain><name>a</name></domain>")).toStrictEqual({
      family: undefined,
      nics: [],
      controllers: [],
      pciAddresses: [],
      devices: [],
      vcpus: 1,
      sharesMemory: false,
      agentConnected: false,
      paths: [],
    });
  });

  test("has a connected agent even if other channels are disconnected", () => {
    const channels = [
      `<channel><target name='${AGENT_CHANNEL}' state='connected'/></channel>`,
      "<channel><target name='spice' state='disconnected'/></channel>",
    ];
    expect(parsed(device(channels.join(""))).agentConnected).toBe(true);
  });

  test("may have the maximum length and number of NICs", () => {
    const nics = "<interface><rom/></interface>".repeat(256);
    const empty = `<domain><devices>${nics}</devices></domain>`;
    const xml = empty.replace("</domain>", `${" ".repeat(256 * 1024 - empty.length)}</domain>`);
    expect(parsed(xml).nics).toHaveLength(256);
  });
});

describe("rejects hostile XML", () => {
  test.each([
    {
      name: "a DOCTYPE",
      xml: '<!DOCTYPE d [<!ENTITY a "b">]><domain/>',
      reason: "it has a DOCTYPE",
    },
    {
      name: "a document that is too large",
      xml: `<domain>${" ".repeat(256 * 1024)}</domain>`,
      reason: "it is too long",
    },
    { name: "a different root element", xml: "<network/>", reason: "it has no domain element" },
    {
      name: "too many NICs",
      xml: `<domain><devices>${"<interface/>".repeat(257)}</devices></domain>`,
      reason: "it has more than 256 NICs",
    },
  ])("$name", ({ xml, reason }) => {
    expect(parseDomain(xml)).toEqual({ ok: false, reason });
  });

  test.each([
    { place: "a bus", xml: nicAt("bus='256'") },
    { place: "a slot", xml: nicAt("slot='-1'") },
    { place: "a function", xml: nicAt("function='0.5'") },
    { place: "an exponent", xml: nicAt("slot='1e1'") },
    { place: "a long number", xml: nicAt(`slot='${"0".repeat(11)}'`) },
    { place: "no number", xml: nicAt("slot='NaN'") },
    { place: "an empty one", xml: nicAt("slot=''") },
    { place: "queues", xml: device("<interface><driver queues='257'/></interface>") },
    { place: "mtu", xml: device("<interface><mtu size='65536'/></interface>") },
    { place: "mtu", xml: device("<interface><mtu size='-1'/></interface>") },
    { place: "a controller", xml: device("<controller type='pci' index='Infinity'/>") },
    { place: "vCPUs", xml: "<domain><vcpu>99999</vcpu></domain>" },
  ])("with an invalid number: $place", ({ xml }) => {
    expect(parseDomain(xml)).toMatchObject({
      ok: false,
      reason: expect.stringContaining("is not a number from 0 to") as string,
    });
  });

  test("and truncates the value in the reason", () => {
    const number = "9".repeat(1000);
    expect(parseDomain(nicAt(`slot='${number}'`))).toEqual({
      ok: false,
      reason: 'its slot "99999999999999999999" is not a number from 0 to 31',
    });
    const unbalanced = parseDomain(`<domain><${"a".repeat(1000)}></domain>`);
    expect(unbalanced).toEqual({ ok: false, reason: expect.stringMatching(/^.{200}$/s) as string });
  });

  test.each([
    { name: "unbalanced elements", xml: "<domain><a></domain>" },
    { name: "too many nested levels", xml: "<domain>".repeat(15_000) + "</domain>".repeat(15_000) },
    { name: "names of JavaScript properties", xml: "<domain><__proto__ a='1'/></domain>" },
  ])("$name", ({ xml }) => {
    expect(parseDomain(xml).ok).toBe(false);
  });
});

test.each([
  { machine: "pc-q35-7.2", want: undefined },
  { machine: "pc-i440fx-6.1", want: undefined },
  { machine: "pc-q35-8.0", want: true },
  { machine: "pc-i440fx-10.0", want: true },
])("QEMU of machine type $machine aborts without a NIC's tap: $want", ({ machine, want }) => {
  const parsed = parseDomain(printDomain(aDomain({ machine })));
  expect(parsed.ok && parsed.domain.abortsWithoutTap).toBe(want);
});
