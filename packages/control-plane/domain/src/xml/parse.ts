// SPDX-License-Identifier: Apache-2.0
// Parses the XML of a live domain. The XML comes from a launcher and is therefore untrusted.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { XMLParser } from "fast-xml-parser";
import { AGENT_CHANNEL } from "../definition.ts";
import { type MachineFamily, findMachineFamily, type PciAddress } from "../pci/addresses.ts";
import type { DeviceKind } from "../pci/interrupts.ts";
import { checkDocument, describeParseError } from "./check-document.ts";

/** Elements whose paths {@link DomainFacts} omits. {@link NicFacts} contains the paths of NICs; libvirt sets all other omitted paths. */
const ELEMENTS_WITHOUT_PATHS: ReadonlySet<string> = new Set([
  "interface",
  "emulator",
  "backingStore",
]);

function listPathsBelow(node: unknown): readonly string[] {
  if (typeof node === "string") return node.startsWith("/") ? [node] : [];
  if (Array.isArray(node)) return node.flatMap(listPathsBelow);
  if (!isJsonObject(node)) return [];
  return Object.entries(node).flatMap(([key, value]) =>
    ELEMENTS_WITHOUT_PATHS.has(key) ? [] : listPathsBelow(value),
  );
}

function listPaths(root: JsonObject): readonly string[] {
  return [...new Set([root["os"], root["devices"]].flatMap(listPathsBelow))].toSorted();
}

/** Maximum number of NICs, which is more than any machine type supports. */
const NICS_MAX = 256;

/** Maximum of each number in the XML. Source: libvirt docs/formatdomain.rst "Device Addresses", "Controllers". */
const NUMBER_LIMITS = {
  bus: 0xff,
  slot: 0x1f,
  function: 7,
  index: 0xff,
  queues: 256,
  vcpus: 4096,
  mtu: 65_535,
} as const;

const NUMBER_SYNTAX = /^(?:0x[0-9a-f]{1,8}|[0-9]{1,10})$/i;

class InvalidDomainError extends Error {}

/** NIC of the live domain. It may differ from the NIC in the domain's definition. */
export interface NicFacts {
  readonly alias: string;
  readonly mac: string;
  readonly tapName?: string;
  readonly socketPath?: string;
  readonly pciAddress?: PciAddress;
  readonly linkUp: boolean;
  /** libvirt's name of the model, for example `virtio-non-transitional`. */
  readonly model: string;
  /** Number of queue pairs. 1 if the XML contains no number. */
  readonly queues: number;
  /** MTU that QEMU reports to the guest, in bytes. Unset if the XML contains no MTU. */
  readonly mtu?: number;
  readonly hasBootRom?: true;
}

export interface PciControllerFacts {
  /** Number of the controller's bus. */
  readonly index: number;
  readonly model: string;
  readonly hotplug: boolean;
}

export interface DomainFacts {
  /** Undefined if Patchbay does not support the PCI layout of the machine type. */
  readonly family: MachineFamily | undefined;
  /** Set if QEMU aborts when a NIC is reset or removed after the deletion of its tap. */
  readonly abortsWithoutTap?: true;
  readonly nics: readonly NicFacts[];
  readonly controllers: readonly PciControllerFacts[];
  readonly pciAddresses: readonly PciAddress[];
  readonly devices: readonly DeviceKind[];
  readonly vcpus: number;
  /** Whether other processes can share guest memory, which vhost-user requires. */
  readonly sharesMemory: boolean;
  readonly hasNoNicVectors?: true;
  readonly agentConnected: boolean;
  /** Paths of files and sockets in the launcher, except those of NICs. */
  readonly paths: readonly string[];
}

type ParsedDomain =
  | { readonly ok: true; readonly domain: DomainFacts }
  | { readonly ok: false; readonly reason: string };

/** Element with attributes or children. The parser returns a string for an element with text only. */
type XmlNode = JsonObject;

const LIST_PATHS: ReadonlySet<unknown> = new Set([
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
  isArray: (_name: string, path: unknown) => LIST_PATHS.has(path),
});

function findChild(node: unknown, name: string): XmlNode | undefined {
  const value = isJsonObject(node) ? node[name] : undefined;
  return isJsonObject(value) ? value : undefined;
}

function listChildren(node: XmlNode | undefined, name: string): readonly XmlNode[] {
  const value = node?.[name];
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function readText(node: XmlNode | undefined, name: string): string | undefined {
  const value = node?.[name];
  return typeof value === "string" ? value : undefined;
}

function parseNumber(text: string, name: keyof typeof NUMBER_LIMITS): number {
  const value = NUMBER_SYNTAX.test(text) ? Number(text) : NaN;
  if (value <= NUMBER_LIMITS[name]) return value;
  throw new InvalidDomainError(
    `its ${name} ${JSON.stringify(text.slice(0, 20))} is not a number from 0 to ${String(NUMBER_LIMITS[name])}`,
  );
}

function readNumber(
  node: XmlNode | undefined,
  name: "bus" | "slot" | "function" | "index",
): number {
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

function parseSource(device: XmlNode): Pick<NicFacts, "tapName" | "socketPath"> {
  if (readText(device, "@type") === "vhostuser") {
    return { socketPath: readText(findChild(device, "source"), "@path") ?? "" };
  }
  const tapName = readText(findChild(device, "target"), "@dev");
  return tapName === undefined ? {} : { tapName };
}

function parseNic(device: XmlNode): NicFacts {
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

/** Returns the devices' addresses in the guest. Omits nested addresses, such as a host device's address on the host's bus. */
function listPciAddresses(devices: XmlNode | undefined): readonly PciAddress[] {
  return Object.values(devices ?? {})
    .flat()
    .flatMap((device) => parsePciAddress(device) ?? []);
}

const DEVICE_KINDS: Readonly<Record<string, DeviceKind>> = { disk: "disk", input: "input" };
const CONTROLLER_KINDS: Readonly<Record<string, DeviceKind>> = { scsi: "scsi", usb: "usb" };

function findKind(element: string, device: unknown): DeviceKind {
  const type = isJsonObject(device) ? readText(device, "@type") : undefined;
  const kinds = element === "controller" ? CONTROLLER_KINDS : DEVICE_KINDS;
  const key = element === "controller" ? (type ?? "") : element;
  return Object.hasOwn(kinds, key) ? (kinds[key] ?? "other") : "other";
}

function listDevicesBehindPorts(devices: XmlNode | undefined): readonly DeviceKind[] {
  return Object.entries(devices ?? {})
    .filter(([element]) => element !== "interface")
    .flatMap(([element, value]) => [value].flat().map((device) => ({ element, device })))
    .filter(({ device }) => (parsePciAddress(device)?.bus ?? 0) > 0)
    .map(({ element, device }) => findKind(element, device));
}

function parseNics(devices: XmlNode | undefined): readonly NicFacts[] {
  const nics = listChildren(devices, "interface");
  const elements = devices?.["interface"];
  if (Array.isArray(elements) && elements.length > NICS_MAX)
    throw new InvalidDomainError(`it has more than ${String(NICS_MAX)} NICs`);
  return nics.map(parseNic);
}

function parseController(controller: XmlNode): PciControllerFacts {
  return {
    index: readNumber(controller, "index"),
    model: readText(controller, "@model") ?? "",
    hotplug: readText(findChild(controller, "target"), "@hotplug") !== "off",
  };
}

function isConnectedAgent(channel: XmlNode): boolean {
  const target = findChild(channel, "target");
  return readText(target, "@name") === AGENT_CHANNEL && readText(target, "@state") === "connected";
}

/** Returns the number of vCPUs. The parser returns a string if the element has no attributes, otherwise an object. */
function parseVcpus(root: XmlNode): number {
  const text = readText(root, "vcpu") ?? readText(findChild(root, "vcpu"), "#text") ?? "1";
  return parseNumber(text, "vcpus");
}

const NO_VECTORS_OPTION = "virtio-net-pci-base.vectors=0";

function listArguments(root: XmlNode): readonly string[] {
  const args = findChild(root, "qemu:commandline")?.["qemu:arg"];
  return [args ?? []]
    .flat()
    .flatMap((arg) => (isJsonObject(arg) ? (readText(arg, "@value") ?? []) : []));
}

/**
 * Checks whether QEMU continues to run when a NIC is reset or removed after the deletion of its tap. QEMU 7.2 continues; 10.0
 * exits with "TUNSETVNETHDRSZ ioctl() failed" (both measured). Assumes that QEMU continues if the machine type has a version up
 * to 7.2 or none, and exits otherwise.
 */
function survivesTapDeletion(machine: string): boolean {
  const [, major, minor] = /-(\d+)\.(\d+)$/.exec(machine) ?? [];
  if (major === undefined) return true;
  return Number(major) < 7 || (major === "7" && Number(minor) <= 2);
}

function toFacts(root: XmlNode): DomainFacts {
  const devices = findChild(root, "devices");
  const machine = readText(findChild(findChild(root, "os"), "type"), "@machine") ?? "";
  const access = findChild(findChild(root, "memoryBacking"), "access");
  return {
    family: findMachineFamily(machine),
    ...(!survivesTapDeletion(machine) && { abortsWithoutTap: true }),
    nics: parseNics(devices),
    controllers: listChildren(devices, "controller")
      .filter((controller) => readText(controller, "@type") === "pci")
      .map(parseController)
      .sort((left, right) => left.index - right.index),
    pciAddresses: listPciAddresses(devices),
    devices: listDevicesBehindPorts(devices),
    vcpus: parseVcpus(root),
    sharesMemory: readText(access, "@mode") === "shared",
    ...(listArguments(root).includes(NO_VECTORS_OPTION) && { hasNoNicVectors: true }),
    agentConnected: listChildren(devices, "channel").some(isConnectedAgent),
    paths: listPaths(root),
  };
}

function readDomain(xml: string): DomainFacts {
  checkDocument(xml);
  const root = findChild(parser.parse(xml), "domain");
  if (root === undefined) throw new InvalidDomainError("it has no domain element");
  return toFacts(root);
}

/** Parses a live domain. Rejects malformed or too long documents, and those with a DOCTYPE, a number out of range or too many NICs. */
export function parseDomain(xml: string): ParsedDomain {
  try {
    return { ok: true, domain: readDomain(xml) };
  } catch (error) {
    return { ok: false, reason: describeParseError(error) };
  }
}
