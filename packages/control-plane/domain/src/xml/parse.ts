// SPDX-License-Identifier: Apache-2.0
// Parses the XML of a live domain. The XML is untrusted: it comes from a launcher.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { XMLParser } from "fast-xml-parser";
import { AGENT_CHANNEL } from "../definition.ts";
import { type MachineFamily, findMachineFamily, type PciAddress } from "../pci/addresses.ts";
import type { DeviceKind } from "../pci/interrupts.ts";
import { checkDocument, reasonOf } from "./check-document.ts";

/**
 * Elements without paths of the guest. libvirt finds the emulator and backing files itself, and their paths depend on
 * the host. Source: libvirt formatdomain "emulator", "backingStore".
 */
const ELEMENTS_WITHOUT_PATHS: ReadonlySet<string> = new Set([
  "interface",
  "emulator",
  "backingStore",
]);

function pathsBelow(node: unknown): readonly string[] {
  if (typeof node === "string") return node.startsWith("/") ? [node] : [];
  if (Array.isArray(node)) return node.flatMap(pathsBelow);
  if (!isJsonObject(node)) return [];
  return Object.entries(node).flatMap(([key, value]) =>
    ELEMENTS_WITHOUT_PATHS.has(key) ? [] : pathsBelow(value),
  );
}

/** Returns the absolute paths below `os` and `devices`, sorted and without duplicates. NicFacts holds the paths of NICs. */
function pathsIn(root: JsonObject): readonly string[] {
  return [...new Set([root["os"], root["devices"]].flatMap(pathsBelow))].toSorted();
}

/** More NICs than any machine supports. */
const NICS_MAX = 256;

/** libvirt's limits. Source: libvirt docs/formatdomain.rst "Device Addresses", "Controllers". */
const LIMITS = {
  bus: 0xff,
  slot: 0x1f,
  function: 7,
  index: 0xff,
  queues: 256,
  vcpus: 4096,
  mtu: 65_535,
} as const;

const NUMBER = /^(?:0x[0-9a-f]{1,8}|[0-9]{1,10})$/i;

class Refusal extends Error {}

/** A NIC of the live domain, which may differ from its definition. */
export interface NicFacts {
  readonly alias: string;
  readonly mac: string;
  readonly tapName?: string;
  readonly socketPath?: string;
  readonly pciAddress?: PciAddress;
  readonly linkUp: boolean;
  /** libvirt's name, for example `virtio-non-transitional`. */
  readonly model: string;
  /** Queue pairs of the driver; 1 if unset. */
  readonly queues: number;
  /** In bytes, as announced to the guest; unset if libvirt reports none. */
  readonly mtu?: number;
  readonly hasBootRom?: true;
}

export interface PciControllerFacts {
  /** Number of its bus. */
  readonly index: number;
  readonly model: string;
  readonly hotplug: boolean;
}

export interface DomainFacts {
  /** Undefined if the machine type's PCI layout is unknown. */
  readonly family: MachineFamily | undefined;
  /** Set if QEMU aborts when a NIC is reset or removed after its tap was deleted. */
  readonly abortsWithoutTap?: true;
  readonly nics: readonly NicFacts[];
  readonly controllers: readonly PciControllerFacts[];
  readonly pciAddresses: readonly PciAddress[];
  readonly devices: readonly DeviceKind[];
  readonly vcpus: number;
  /** Whether other processes can share guest memory, as vhost-user requires. */
  readonly sharesMemory: boolean;
  readonly hasNoNicVectors?: true;
  readonly agentConnected: boolean;
  /** Files and sockets in the launcher, without those of NICs. */
  readonly paths: readonly string[];
}

type ParsedDomain =
  | { readonly ok: true; readonly domain: DomainFacts }
  | { readonly ok: false; readonly reason: string };

/** An element with attributes or children. The parser represents other elements as text. */
type Node = JsonObject;

const LISTS: ReadonlySet<unknown> = new Set([
  "domain.devices.interface",
  "domain.devices.controller",
  "domain.devices.channel",
]);

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: true,
  isArray: (_name: string, path: unknown) => LISTS.has(path),
});

function findChild(node: unknown, name: string): Node | undefined {
  const value = isJsonObject(node) ? node[name] : undefined;
  return isJsonObject(value) ? value : undefined;
}

function listChildren(node: Node | undefined, name: string): readonly Node[] {
  const value = node?.[name];
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function readText(node: Node | undefined, name: string): string | undefined {
  const value = node?.[name];
  return typeof value === "string" ? value : undefined;
}

function parseNumber(text: string, name: keyof typeof LIMITS): number {
  const value = NUMBER.test(text) ? Number(text) : NaN;
  if (value <= LIMITS[name]) return value;
  throw new Refusal(
    `its ${name} ${JSON.stringify(text.slice(0, 20))} is not a number from 0 to ${String(LIMITS[name])}`,
  );
}

function readNumber(node: Node | undefined, name: "bus" | "slot" | "function" | "index"): number {
  return parseNumber(readText(node, `@${name}`) ?? "0", name);
}

function parsePciAddress(device: unknown): PciAddress | undefined {
  const address = findChild(device, "address");
  if (readText(address, "@type") !== "pci") return undefined;
  return {
    bus: readNumber(address, "bus"),
    slot: readNumber(address, "slot"),
    function: readNumber(address, "function"),
  };
}

function parseSource(device: Node): Pick<NicFacts, "tapName" | "socketPath"> {
  if (readText(device, "@type") === "vhostuser") {
    return { socketPath: readText(findChild(device, "source"), "@path") ?? "" };
  }
  const tapName = readText(findChild(device, "target"), "@dev");
  return tapName === undefined ? {} : { tapName };
}

function parseNic(device: Node): NicFacts {
  const pciAddress = parsePciAddress(device);
  const mtu = readText(findChild(device, "mtu"), "@size");
  return {
    alias: readText(findChild(device, "alias"), "@name") ?? "",
    mac: (readText(findChild(device, "mac"), "@address") ?? "").toLowerCase(),
    ...parseSource(device),
    ...(pciAddress === undefined ? {} : { pciAddress }),
    linkUp: readText(findChild(device, "link"), "@state") !== "down",
    model: readText(findChild(device, "model"), "@type") ?? "",
    queues: parseNumber(readText(findChild(device, "driver"), "@queues") ?? "1", "queues"),
    ...(mtu === undefined ? {} : { mtu: parseNumber(mtu, "mtu") }),
    ...(readText(findChild(device, "rom"), "@enabled") === "yes" ? { hasBootRom: true } : {}),
  };
}

/** Skips nested addresses, for example in the source of a host device, which belong to another bus. */
function allPciAddresses(devices: Node | undefined): readonly PciAddress[] {
  return Object.values(devices ?? {})
    .flat()
    .flatMap((device) => parsePciAddress(device) ?? []);
}

const KINDS: Readonly<Record<string, DeviceKind>> = { disk: "disk", input: "input" };
const CONTROLLERS: Readonly<Record<string, DeviceKind>> = { scsi: "scsi", usb: "usb" };

function findKind(element: string, device: unknown): DeviceKind {
  const type = isJsonObject(device) ? readText(device, "@type") : undefined;
  const kinds = element === "controller" ? CONTROLLERS : KINDS;
  const key = element === "controller" ? (type ?? "") : element;
  return Object.hasOwn(kinds, key) ? (kinds[key] ?? "other") : "other";
}

function devicesBehindPorts(devices: Node | undefined): readonly DeviceKind[] {
  return Object.entries(devices ?? {})
    .filter(([element]) => element !== "interface")
    .flatMap(([element, value]) => [value].flat().map((device) => ({ element, device })))
    .filter(({ device }) => (parsePciAddress(device)?.bus ?? 0) > 0)
    .map(({ element, device }) => findKind(element, device));
}

function parseNics(devices: Node | undefined): readonly NicFacts[] {
  const nics = listChildren(devices, "interface");
  const all = devices?.["interface"]; // includes empty elements
  if (Array.isArray(all) && all.length > NICS_MAX)
    throw new Refusal(`it has more than ${String(NICS_MAX)} NICs`);
  return nics.map(parseNic);
}

function parseController(controller: Node): PciControllerFacts {
  return {
    index: readNumber(controller, "index"),
    model: readText(controller, "@model") ?? "",
    hotplug: readText(findChild(controller, "target"), "@hotplug") !== "off",
  };
}

function isConnectedAgent(channel: Node): boolean {
  const target = findChild(channel, "target");
  return readText(target, "@name") === AGENT_CHANNEL && readText(target, "@state") === "connected";
}

/** Without attributes the element is plain text. */
function parseVcpus(root: Node): number {
  const text = readText(root, "vcpu") ?? readText(findChild(root, "vcpu"), "#text") ?? "1";
  return parseNumber(text, "vcpus");
}

const WITHOUT_VECTORS = "virtio-net-pci-base.vectors=0";

function listArguments(root: Node): readonly string[] {
  const args = findChild(root, "qemu:commandline")?.["qemu:arg"];
  return [args ?? []]
    .flat()
    .flatMap((arg) => (isJsonObject(arg) ? (readText(arg, "@value") ?? []) : []));
}

/**
 * Whether QEMU keeps running when a NIC is reset or removed after its tap was deleted. 7.2 was measured to, 10.0 ends with
 * "TUNSETVNETHDRSZ ioctl() failed". libvirt completes the type `q35` to the newest one that QEMU has.
 */
function survivesLostTap(machine: string): boolean {
  const [, major, minor] = /-(\d+)\.(\d+)$/.exec(machine) ?? [];
  if (major === undefined) return true;
  return Number(major) < 7 || (major === "7" && Number(minor) <= 2);
}

function toFacts(root: Node): DomainFacts {
  const devices = findChild(root, "devices");
  const machine = readText(findChild(findChild(root, "os"), "type"), "@machine") ?? "";
  const access = findChild(findChild(root, "memoryBacking"), "access");
  return {
    family: findMachineFamily(machine),
    ...(!survivesLostTap(machine) && { abortsWithoutTap: true }),
    nics: parseNics(devices),
    controllers: listChildren(devices, "controller")
      .filter((controller) => readText(controller, "@type") === "pci")
      .map(parseController)
      .sort((left, right) => left.index - right.index),
    pciAddresses: allPciAddresses(devices),
    devices: devicesBehindPorts(devices),
    vcpus: parseVcpus(root),
    sharesMemory: readText(access, "@mode") === "shared",
    ...(listArguments(root).includes(WITHOUT_VECTORS) && { hasNoNicVectors: true }),
    agentConnected: listChildren(devices, "channel").some(isConnectedAgent),
    paths: pathsIn(root),
  };
}

function readDomain(xml: string): DomainFacts {
  checkDocument(xml);
  const root = findChild(parser.parse(xml), "domain");
  if (root === undefined) throw new Refusal("it has no domain element");
  return toFacts(root);
}

/** Rejects documents that are too long, malformed or out of range, or that have a DOCTYPE. */
export function parseDomain(xml: string): ParsedDomain {
  try {
    return { ok: true, domain: readDomain(xml) };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}
