// SPDX-License-Identifier: Apache-2.0
// What a hook may make of a domain, in the words of the domain itself.
import type { VmiSpec } from "@patchbay/api";
import { mergeDomain, readXml, type XmlElement } from "@patchbay/domain/overlay";
import { describe, expect, test } from "vitest";
import { refusedChanges } from "./refused-changes.ts";

const QEMU = "http://libvirt.org/schemas/domain/qemu/1.0";
const INPUT = `<domain type="qemu" xmlns:qemu="${QEMU}">
  <name>default_vm1</name><uuid>6f1c1a52</uuid><memory unit="MiB">128</memory><vcpu>1</vcpu>
  <os><type machine="q35">hvm</type><kernel>/run/kernel-boot/vmlinuz</kernel></os>
  <features><acpi/><tcg><tb-cache unit="MiB">96</tb-cache></tcg></features>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type="pci" index="1" model="pcie-root-port"/>
    <disk type="file"><source file="/run/disks/root.qcow2"/><target dev="vda"/></disk>
    <interface type="ethernet">
      <mac address="02:00:00:00:00:01"/><target dev="tap1" managed="no"/>
      <alias name="ua-one"/><address type="pci" bus="0x02"/>
    </interface>
  </devices>
  <qemu:override><qemu:device alias="ua-root"/></qemu:override>
</domain>`;
const SPEC: VmiSpec = {
  domain: {
    devices: {
      interfaces: [
        { name: "one", bridge: {} },
        { name: "made", binding: { name: "slirp" }, macAddress: "02-00-00-00-00-0A" },
      ],
    },
  },
};

function read(xml: string): XmlElement {
  const result = readXml(xml);
  if (!result.ok) throw new Error(result.reason);
  return result.root;
}

function refusals(
  answer: (xml: string) => string,
  created: readonly string[] = [],
): readonly string[] {
  const replied = answer(INPUT);
  expect(replied).not.toBe(INPUT);
  const { changes } = mergeDomain(read(INPUT), read(replied));
  return refusedChanges(changes, SPEC, new Set(created)).map(
    ({ where, message }) => `${where}: ${message}`,
  );
}

const intoDevices =
  (device: string) =>
  (xml: string): string =>
    xml.replace("</devices>", `${device}</devices>`);
const intoDomain =
  (element: string) =>
  (xml: string): string =>
    xml.replace("<devices>", `${element}<devices>`);

describe("a hook may", () => {
  test.each<{ name: string; answer: (xml: string) => string; made?: string[] }>([
    {
      name: "set the SMBIOS baseboard",
      answer: (xml) =>
        intoDomain(
          "<sysinfo type='smbios'><baseBoard><entry name='manufacturer'>R</entry></baseBoard></sysinfo>",
        )(xml.replace("</os>", "<smbios mode='sysinfo'/></os>")),
    },
    { name: "choose the CPU model", answer: intoDomain("<cpu mode='host-model'/>") },
    {
      name: "add a CPU or machine feature",
      answer: (xml) => xml.replace("<acpi/>", "<acpi/><vmcoreinfo/>"),
    },
    {
      name: "omit elements that its own types do not know",
      answer: (xml) =>
        xml.replace(/<tcg>.*<\/tcg>/, "").replace(/<qemu:override>.*<\/qemu:override>/, ""),
    },
    {
      name: "add QEMU arguments",
      answer: intoDomain(
        `<qemu:commandline><qemu:arg value="-netdev"/><qemu:arg value="user,id=made"/><qemu:arg value="-device"/><qemu:arg value='{"driver":"e1000","netdev":"made","id":"made"}'/></qemu:commandline>`,
      ),
    },
    {
      name: "create the NIC of an interface that it manages",
      answer: intoDevices(
        "<interface type='user'><mac address='02:00:00:00:00:0a'/><alias name='ua-made'/><backend type='passt'/></interface>",
      ),
      made: ["made"],
    },
    {
      name: "add a NIC outside the VM's interfaces",
      answer: intoDevices("<interface type='user'><alias name='ua-other'/></interface>"),
    },
    { name: "add a device", answer: intoDevices("<sound model='ich9'/><input type='tablet'/>") },
    { name: "add a controller", answer: intoDevices("<controller type='usb' index='0'/>") },
  ])("$name", ({ answer, made: created }) => {
    expect(refusals(answer, created)).toEqual([]);
  });
});

const NIC = "/domain/devices/interface[ua-one]";

describe("a hook may not", () => {
  test.each<{ name: string; answer: (xml: string) => string; made?: string[]; says: string[] }>([
    {
      name: "remove a NIC",
      answer: (xml) => xml.replace(/<interface.*<\/interface>/s, ""),
      says: [`${NIC}: a hook cannot take it away; leave it in the answer`],
    },
    {
      name: "change a NIC's MAC",
      answer: (xml) => xml.replace("02:00:00:00:00:01", "02:00:00:00:00:02"),
      says: [
        `${NIC}/mac/@address: a hook cannot make it 02:00:00:00:00:02, it is 02:00:00:00:00:01; leave it as it is`,
      ],
    },
    {
      name: "change a NIC's alias, which would replace the NIC",
      answer: (xml) => xml.replace("ua-one", "ua-uno"),
      says: [`${NIC}: a hook cannot take it away; leave it in the answer`],
    },
    {
      name: "change a NIC's PCI address",
      answer: (xml) => xml.replace('bus="0x02"', 'bus="0x03"'),
      says: [`${NIC}/address/@bus: a hook cannot make it 0x03, it is 0x02; leave it as it is`],
    },
    {
      name: "change a NIC's tap",
      answer: (xml) => xml.replace('dev="tap1"', 'dev="tap0"'),
      says: [`${NIC}/target/@dev: a hook cannot make it tap0, it is tap1; leave it as it is`],
    },
    {
      name: "add a second MAC to a NIC",
      answer: (xml) => xml.replace("<mac", "<mac address='02:00:00:00:00:09'/><mac"),
      says: [
        `${NIC}/mac/@address: a hook cannot make it 02:00:00:00:00:09, it is 02:00:00:00:00:01; leave it as it is`,
        `${NIC}/mac: a hook cannot add to a device that Patchbay makes; leave it out`,
      ],
    },
    {
      name: "add an element to a NIC",
      answer: (xml) =>
        xml.replace('<alias name="ua-one"/>', '<alias name="ua-one"/><link state="down"/>'),
      says: [`${NIC}/link: a hook cannot add to a device that Patchbay makes; leave it out`],
    },
    {
      name: "create the NIC of an interface that Patchbay manages",
      answer: intoDevices("<interface type='user'><alias name='ua-made'/></interface>"),
      says: [
        "/domain/devices/interface[ua-made]: made is an interface that Patchbay makes; use another alias",
      ],
    },
    {
      name: "create a NIC with a different MAC than its interface",
      answer: intoDevices("<interface type='user'><alias name='ua-made'/></interface>"),
      made: ["made"],
      says: [
        "/domain/devices/interface[ua-made]: the interface made has the MAC 02-00-00-00-00-0A; give the NIC that one",
      ],
    },
    {
      name: "add a NIC on a bridge",
      answer: intoDevices("<interface type='bridge'><source bridge='br0'/></interface>"),
      says: [
        "/domain/devices/interface: a NIC of type bridge is not one that a hook may add; use user or ethernet",
      ],
    },
    {
      name: "add a disk from the node",
      answer: intoDevices(
        "<disk type='file'><source file='/etc/shadow'/><target dev='vdb'/></disk>",
      ),
      says: [
        "/domain/devices/disk[vdb]: a hook cannot give the guest a disk; name it in spec.volumes of the VM",
      ],
    },
    {
      name: "change a disk's file",
      answer: (xml) => xml.replace("/run/disks/root.qcow2", "/etc/shadow"),
      says: [
        "/domain/devices/disk[vda]/source/@file: a hook cannot make it /etc/shadow, it is /run/disks/root.qcow2; leave it as it is",
      ],
    },
    {
      name: "add a host device",
      answer: intoDevices("<hostdev mode='subsystem' type='pci'/>"),
      says: ["/domain/devices/hostdev: a hook cannot give the guest a device of the node"],
    },
    {
      name: "add an unknown device",
      answer: intoDevices("<shmem name='x'/>"),
      says: ["/domain/devices/shmem[x]: a hook cannot add it; leave it out"],
    },
    {
      name: "add a PCIe port",
      answer: intoDevices("<controller type='pci' index='2' model='pcie-root-port'/>"),
      says: [
        "/domain/devices/controller[pci 2]: a hook cannot change the machine's PCI; set spec.domain.devices.pcieRootPorts of the VM",
      ],
    },
    {
      name: "set the emulator",
      answer: intoDevices("<emulator>/bin/sh</emulator>"),
      says: [
        "/domain/devices/emulator: a hook cannot choose the program that runs the guest; remove it",
      ],
    },
    {
      name: "add a second list of devices",
      answer: (xml) => xml.replace("</devices>", "</devices><devices><disk/></devices>"),
      says: ["/domain/devices: a hook cannot add to a device that Patchbay makes; leave it out"],
    },
    {
      name: "change an existing device with QEMU arguments",
      answer: intoDomain(
        "<qemu:commandline><qemu:arg value='--set'/><qemu:arg value='device.ua-one.mac=1'/></qemu:commandline>",
      ),
      says: [
        "/domain/qemu:commandline: -set changes devices that are there already; use -device to add one",
      ],
    },
    ...[
      { name: "memory", from: ">128<", to: ">99999<", where: "memory" },
      { name: "the UUID", from: ">6f1c1a52<", to: ">7<", where: "uuid" },
      { name: "the number of vCPUs", from: "<vcpu>1<", to: "<vcpu>64<", where: "vcpu" },
      { name: "the hypervisor", from: 'type="qemu"', to: 'type="kvm"', where: "@type" },
      { name: "the kernel", from: "/vmlinuz", to: "/../x", where: "os/kernel" },
      {
        name: "QEMU's translation cache",
        from: ">96<",
        to: ">9600<",
        where: "features/tcg/tb-cache",
      },
      { name: "the action on a crash", from: ">destroy<", to: ">restart<", where: "on_crash" },
      { name: "the namespace of qemu:", from: QEMU, to: "urn:other", where: "@xmlns:qemu" },
    ].map(({ name, from, to, where }) => ({
      name: `change ${name}`,
      answer: (xml: string): string => xml.replace(from, to),
      says: [
        `/domain/${where}: a hook cannot change it; keep the original value, or change the VM`,
      ],
    })),
    {
      name: "add QEMU overrides of existing devices",
      answer: (xml) =>
        xml.replace("</qemu:override>", "<qemu:device alias='ua-one'/></qemu:override>"),
      says: [
        "/domain/qemu:override/qemu:device[ua-one]: a hook cannot change it; keep the original value, or change the VM",
      ],
    },
    {
      name: "add maximum memory",
      answer: intoDomain("<maxMemory slots='16'>999</maxMemory>"),
      says: [
        "/domain/maxMemory: a hook cannot change it; keep the original value, or change the VM",
      ],
    },
  ])("$name", ({ answer, made: created, says: message }) => {
    expect(refusals(answer, created)).toEqual(message);
  });
});
