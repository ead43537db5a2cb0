// SPDX-License-Identifier: Apache-2.0
// Decides which changes a hook may make to the domain. See ADR 0085.
import type { VmiSpec } from "@patchbay/api";
import { normalizeMac } from "@patchbay/api/values";
import type { DomainChange } from "@patchbay/domain";
import { parseAlias } from "../nics/names.ts";
import { ifacesOf } from "../nics/nics.ts";

interface RefusedChange {
  readonly where: string;
  readonly message: string;
}

/** Elements of the domain XML that hooks may add and change, including their descendants, except {@link EXCLUDED_PATHS}. */
const ALLOWED_PATHS: readonly string[] = [
  "title",
  "description",
  "metadata",
  "sysinfo",
  "os/smbios",
  "os/bios",
  "os/bootmenu",
  "cpu",
  "features",
  "clock",
  "pm",
  "qemu:commandline",
  "qemu:capabilities",
];

const EXCLUDED_PATHS: readonly string[] = ["features/tcg", "cpu/numa"];

/** Devices that hooks may add, because they use nothing outside the pod. */
const ADDABLE_DEVICES: readonly string[] = [
  "audio",
  "channel",
  "controller",
  "graphics",
  "hub",
  "input",
  "interface",
  "iommu",
  "panic",
  "rng",
  "sound",
  "video",
  "watchdog",
];

const DEVICE_ADVICE: Readonly<Record<string, string>> = {
  disk: "a hook cannot give the guest a disk; name it in spec.volumes of the VM",
  filesystem: "a hook cannot give the guest a directory; name a disk in spec.volumes of the VM",
  hostdev: "a hook cannot give the guest a device of the node",
  emulator: "a hook cannot choose the program that runs the guest; remove it",
};

/** NIC types that hooks may add, because their backends are in the pod. Source: libvirt formatdomain "Network interfaces". */
const NIC_TYPES: readonly (string | undefined)[] = ["user", "ethernet"];

/** QEMU options that change existing devices. Source: QEMU qemu-options.hx. */
const REFUSED_ARGUMENTS: readonly string[] = ["set", "global", "readconfig"];

function isBelow(path: string, roots: readonly string[]): boolean {
  return roots.some((root) => path === root || path.startsWith(`${root}/`));
}

/** XML namespace that QEMU-specific elements require. Source: libvirt drvqemu. */
const QEMU_NAMESPACE = {
  path: "@xmlns:qemu",
  uri: "http://libvirt.org/schemas/domain/qemu/1.0",
} as const;

function isNamespace(path: string, uri: string): boolean {
  return path === QEMU_NAMESPACE.path && uri === QEMU_NAMESPACE.uri;
}

/** Returns the new QEMU arguments without leading hyphens, so that `--set` is recognized like `-set`. */
function listArguments({ path, newValue: newText, element }: DomainChange): readonly string[] {
  if (path[1] !== "qemu:commandline") return [];
  const elements = element === undefined ? [] : [element, ...element.children];
  const values = elements.flatMap(({ attributes }) => attributes.get("value") ?? []);
  return [newText, ...values].map((value) => value.trim().replace(/^--?/, ""));
}

function refuseArgument(change: DomainChange): string | undefined {
  const refused = listArguments(change).find((argument) => REFUSED_ARGUMENTS.includes(argument));
  return refused === undefined
    ? undefined
    : `-${refused} changes devices that are there already; use -device to add one`;
}

type NewDevice = NonNullable<DomainChange["element"]>;

function findChildAttribute(
  device: NewDevice,
  name: string,
  attribute: string,
): string | undefined {
  return device.children.find((child) => child.name === name)?.attributes.get(attribute);
}

/** Returns why a hook must not add the NIC. Undefined if the NIC is allowed. */
function refuseNewNic(device: NewDevice, spec: VmiSpec, hookNics: ReadonlySet<string>) {
  const type = device.attributes.get("type");
  if (!NIC_TYPES.includes(type)) {
    return `a NIC of type ${type ?? "none"} is not one that a hook may add; use user or ethernet`;
  }
  const name = parseAlias(findChildAttribute(device, "alias", "name") ?? "");
  const iface = ifacesOf(spec).find((candidate) => candidate.name === name);
  if (name === undefined || iface === undefined) return undefined;
  if (!hookNics.has(name)) return `${name} is an interface that Patchbay makes; use another alias`;
  const [requestedMac, mac] = [iface.macAddress, findChildAttribute(device, "mac", "address")];
  return requestedMac === undefined || normalizeMac(requestedMac) === normalizeMac(mac ?? "")
    ? undefined
    : `the interface ${name} has the MAC ${requestedMac}; give the NIC that one`;
}

function refuseNewDevice(
  device: NewDevice,
  spec: VmiSpec,
  hookNics: ReadonlySet<string>,
): string | undefined {
  const { name, attributes } = device;
  if (!ADDABLE_DEVICES.includes(name)) {
    return Object.hasOwn(DEVICE_ADVICE, name)
      ? DEVICE_ADVICE[name]
      : "a hook cannot add it; leave it out";
  }
  if (name === "controller" && attributes.get("type") === "pci") {
    return "a hook cannot change the machine's PCI; set spec.domain.devices.pcieRootPorts of the VM";
  }
  return name === "interface" ? refuseNewNic(device, spec, hookNics) : undefined;
}

function refuseDeviceChange(
  change: DomainChange,
  spec: VmiSpec,
  hookNics: ReadonlySet<string>,
): string | undefined {
  const { kind, path, element, newValue: newText, oldValue: oldText } = change;
  const isDevice = path.length === 3;
  if (kind === "missing") {
    return isDevice ? "a hook cannot take it away; leave it in the answer" : undefined;
  }
  if (isDevice && kind === "added" && element !== undefined) {
    return refuseNewDevice(element, spec, hookNics);
  }
  if (kind === "added") return "a hook cannot add to a device that Patchbay makes; leave it out";
  return `a hook cannot make it ${newText}, it is ${oldText}; leave it as it is`;
}

function refuseChange(
  change: DomainChange,
  spec: VmiSpec,
  hookNics: ReadonlySet<string>,
): string | undefined {
  const { kind, path } = change;
  if (path[1] === "devices") return refuseDeviceChange(change, spec, hookNics);
  // A hook drops elements that its XML parser does not know. Patchbay restores these elements when it merges the hook's answer, so a
  // missing element does not count as a change.
  if (kind === "missing") return undefined;
  const place = path.slice(1).join("/");
  if (isNamespace(place, change.newValue)) return undefined;
  if (isBelow(place, ALLOWED_PATHS) && !isBelow(place, EXCLUDED_PATHS))
    return refuseArgument(change);
  return "a hook cannot change it; keep the original value, or change the VM";
}

/** Returns the refused changes. `hookNics` contains the names of interfaces whose NICs a hook creates. */
export function refusedChanges(
  changes: readonly DomainChange[],
  spec: VmiSpec,
  hookNics: ReadonlySet<string>,
): readonly RefusedChange[] {
  return changes.flatMap((change) => {
    const message = refuseChange(change, spec, hookNics);
    return message === undefined ? [] : [{ where: change.where, message }];
  });
}
