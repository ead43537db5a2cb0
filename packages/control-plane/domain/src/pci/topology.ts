// SPDX-License-Identifier: Apache-2.0
// Assigns PCI addresses to the ports and devices of a new domain. A domain has the same addresses at every start.
import {
  type PciBridge,
  type RootPort,
  printPciAddress,
  type PciAddress,
  buildBridgeAddress,
  listDisplayAddresses,
  FIRST_SLOT,
  FUNCTIONS_PER_SLOT,
  hasPorts,
  isBehindBridge,
  LAST_ROOT_COMPLEX_SLOT,
  findAddressProblem,
  listAddressesBesidePorts,
  buildRootPorts,
  listDefaultAddresses,
  type Machine,
} from "./addresses.ts";
import { findNicModel, freeVectors, type DeviceKind, type InterruptUser } from "./interrupts.ts";

/** Device that is never hotplugged. The text after a colon is the device's name. */
export type FixedDevice =
  | "guestAgent"
  | "display"
  | "usb"
  | "scsi"
  | `sata:${string}`
  | "rng"
  | "watchdog"
  | `disk:${string}`
  | `input:${string}`;

/** Rules of a layout version. A VM retains the version of its first start, so existing entries must not change. */
interface Layout {
  readonly requiredDevices: readonly FixedDevice[];
  readonly sharesMemory: boolean;
  /** Whether unset fields for the display, the CPU model, the CPU topology and boot ROMs get KubeVirt's defaults. */
  readonly hasKubeVirtDefaults: boolean;
}

export const TOPOLOGY_VERSION = 3;

const NEWEST_LAYOUT: Layout = {
  requiredDevices: ["guestAgent"],
  sharesMemory: true,
  hasKubeVirtDefaults: true,
};

const LAYOUTS: Readonly<Record<number, Layout>> = {
  1: { requiredDevices: [], sharesMemory: true, hasKubeVirtDefaults: false },
  2: { requiredDevices: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: false },
  [TOPOLOGY_VERSION]: NEWEST_LAYOUT,
};

/** Returns the rules of a version. If a newer Patchbay wrote the version, returns the newest known rules. */
export function findLayout(version: number): Layout {
  return LAYOUTS[version] ?? NEWEST_LAYOUT;
}

interface Preferences {
  readonly previous?: PciAddress;
  /** Address that the VM's specification requests. The requested address takes precedence over `previous`. */
  readonly requested?: PciAddress;
}

export interface UnplacedNic extends InterruptUser, Preferences {
  readonly name: string;
}

export interface UnplacedDevice extends Preferences {
  readonly name: FixedDevice;
}

interface TopologyRequest extends Machine {
  readonly version: number;
  readonly vcpus: number;
  /** Number of free ports to add for hot-plug. Machines of family `pc` have no ports; their free slots support hot-plug. */
  readonly reserve: number;
  /** Intended total number of ports. If it is set, `reserve` is ignored. Devices may require more ports. */
  readonly portCount?: number;
  /** Devices in addition to those that the layout requires. They get addresses in this order, before the NICs. */
  readonly devices: readonly UnplacedDevice[];
  readonly nics: readonly UnplacedNic[];
}

export interface Topology {
  readonly ports: readonly RootPort[];
  readonly bridges: readonly PciBridge[];
  readonly nicAddresses: ReadonlyMap<string, PciAddress>;
  readonly fixedAddresses: ReadonlyMap<FixedDevice, PciAddress>;
}

export interface TopologyProblem {
  /** Affected interface. If neither `nic` nor `device` is set, the problem affects the whole domain. */
  readonly nic?: string;
  readonly device?: FixedDevice;
  readonly message: string;
}

export type PlannedTopology =
  | { readonly ok: true; readonly topology: Topology }
  | { readonly ok: false; readonly problems: readonly TopologyProblem[] };

interface DevicePlacement extends Preferences {
  readonly label: string;
  readonly problem: Omit<TopologyProblem, "message">;
  readonly candidates: readonly PciAddress[];
  assign(address: PciAddress): void;
}

const DEVICE_LABELS: Readonly<Record<string, string>> = {
  guestAgent: "the channel of the guest's agent",
  display: "the display",
  usb: "the USB controller",
  scsi: "the SCSI controller",
  rng: "the source of randomness",
  watchdog: "the watchdog",
};

function labelFixedDevice(device: FixedDevice): string {
  const [kind = "", name = ""] = device.split(":");
  return DEVICE_LABELS[device] ?? `${kind} ${name}`;
}

/** Checks whether the device is a conventional PCI device. Source: libvirt formatdomain, "Watchdog devices" and "Controllers". */
function isConventional(device: FixedDevice): boolean {
  return device === "watchdog" || device.startsWith("sata:");
}

function listDeviceAddresses(device: FixedDevice, machine: Machine): readonly PciAddress[] {
  if (device === "display") return listDisplayAddresses(machine);
  return isConventional(device) ? listAddressesBesidePorts(machine) : listDefaultAddresses(machine);
}

function nicAddresses(nic: UnplacedNic, machine: Machine): readonly PciAddress[] {
  const needsIoPorts = findNicModel(nic.model)?.needsIoPorts === true;
  return needsIoPorts ? listAddressesBesidePorts(machine) : listDefaultAddresses(machine);
}

function listAllDevices({ version, devices }: TopologyRequest): readonly UnplacedDevice[] {
  const required = findLayout(version).requiredDevices.filter(
    (name) => !devices.some((device) => device.name === name),
  );
  return [...required.map((name) => ({ name })), ...devices];
}

/** Assigns requested addresses first, then previous addresses, then free addresses to the remaining devices in order. */
class Placement {
  readonly addresses = new Map<string, PciAddress>();
  readonly fixed = new Map<FixedDevice, PciAddress>();
  readonly problems: TopologyProblem[] = [];
  readonly bridges = new Map<number, PciBridge>();
  readonly #ownerByAddress = new Map<string, string>();
  readonly #placed = new Set<DevicePlacement>();
  readonly #machine: Machine;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  nic(nic: UnplacedNic): DevicePlacement {
    const assign = (address: PciAddress): void => void this.addresses.set(nic.name, address);
    const candidates = nicAddresses(nic, this.#machine);
    return {
      ...nic,
      label: `interface ${nic.name}`,
      problem: { nic: nic.name },
      candidates,
      assign,
    };
  }

  device(device: UnplacedDevice): DevicePlacement {
    const { name } = device;
    const assign = (address: PciAddress): void => void this.fixed.set(name, address);
    const candidates = listDeviceAddresses(name, this.#machine);
    return {
      ...device,
      label: labelFixedDevice(name),
      problem: { device: name },
      candidates,
      assign,
    };
  }

  place(placements: readonly DevicePlacement[]): void {
    const withRequest = placements.filter(({ requested }) => requested !== undefined);
    for (const placement of withRequest) this.#placeRequested(placement);
    const withoutRequest = placements.filter(({ requested }) => requested === undefined);
    for (const placement of withoutRequest) this.#placePrevious(placement);
    for (const placement of withoutRequest)
      if (!this.#placed.has(placement)) this.#placeFirstFree(placement);
  }

  #placeRequested(placement: DevicePlacement): void {
    const { requested } = placement;
    if (requested === undefined) return;
    const problem = this.#findRequestProblem(requested);
    if (problem === undefined) this.#assign(placement, requested);
    else this.report(placement, problem);
  }

  #findRequestProblem(requestedAddress: PciAddress): string | undefined {
    const problem = findAddressProblem(requestedAddress, this.#machine);
    if (problem !== undefined) return problem;
    const holder = this.#ownerByAddress.get(printPciAddress(requestedAddress));
    if (holder !== undefined) return `is also the address of ${holder}`;
    return isBehindBridge(requestedAddress, this.#machine)
      ? this.#addBridge(requestedAddress.bus)
      : undefined;
  }

  #addBridge(bus: number): string | undefined {
    if (this.bridges.has(bus)) return undefined;
    const address = buildBridgeAddress(bus);
    // The bridge replaces the root port with this bus number, so no device can be behind that port.
    const bridgeAddresses = [address, { bus, slot: 0, function: 0 }].map(printPciAddress);
    for (const place of bridgeAddresses) {
      const holder = this.#ownerByAddress.get(place);
      if (holder !== undefined) return `its PCI bridge needs ${place}, the address of ${holder}`;
    }
    for (const place of bridgeAddresses)
      this.#ownerByAddress.set(place, "the PCI bridge of a conventional slot");
    this.bridges.set(bus, { index: bus, address });
    return undefined;
  }

  report(
    { requested, problem }: Pick<DevicePlacement, "requested" | "problem">,
    text: string,
  ): void {
    const prefix = requested === undefined ? "" : `${printPciAddress(requested)}: `;
    this.problems.push({ ...problem, message: `${prefix}${text}` });
  }

  /** Assigns the previous address, unless another device uses it or the device cannot be at that address. */
  #placePrevious(placement: DevicePlacement): void {
    if (placement.previous === undefined) return;
    const previousText = printPciAddress(placement.previous);
    // A device may retain a slot on a conventional PCI bus if a bridge still provides this bus.
    const isBridged = placement.previous.slot > 0 && this.bridges.has(placement.previous.bus);
    const isSuitable =
      isBridged || placement.candidates.some((place) => printPciAddress(place) === previousText);
    if (isSuitable && !this.#ownerByAddress.has(previousText))
      this.#assign(placement, placement.previous);
  }

  #placeFirstFree(placement: DevicePlacement): void {
    const address = placement.candidates.find(
      (place) => !this.#ownerByAddress.has(printPciAddress(place)),
    );
    if (address === undefined) {
      this.report(placement, "there is no free PCI slot for it");
      return;
    }
    this.#assign(placement, address);
  }

  #assign(placement: DevicePlacement, address: PciAddress): void {
    placement.assign(address);
    this.#placed.add(placement);
    this.#ownerByAddress.set(printPciAddress(address), placement.label);
  }
}

function placeDevices(request: TopologyRequest): Placement {
  const placement = new Placement(request);
  placement.place([
    ...listAllDevices(request).map((device) => placement.device(device)),
    ...request.nics.map((nic) => placement.nic(nic)),
  ]);
  return placement;
}

type RequestedPlacement = Pick<DevicePlacement, "requested" | "problem">;

function listRequested(
  { devices, nics }: TopologyRequest,
  isWanted: (address: PciAddress) => boolean,
): readonly RequestedPlacement[] {
  const candidates = [
    ...devices.map(({ requested, name }) => ({ requested, problem: { device: name } })),
    ...nics.map(({ requested, name }) => ({ requested, problem: { nic: name } })),
  ];
  return candidates.flatMap(({ requested, problem }) =>
    requested !== undefined && isWanted(requested) ? [{ requested, problem }] : [],
  );
}

interface PortCounts {
  /** Number of ports up to the last port that a device uses. */
  readonly required: number;
  /** Maximum number of ports, limited by slots or by interrupt vectors. */
  readonly possible: number;
  /** Number of ports in use. Some of the ports up to `required` may be free. */
  readonly used: number;
}

function printLastAddress({ possible }: PortCounts): string {
  return printPciAddress({ bus: possible, slot: 0, function: 0 });
}

function reportTooFewSlots(
  request: TopologyRequest,
  placement: Placement,
  counts: PortCounts,
): void {
  const slots = Math.ceil(counts.required / FUNCTIONS_PER_SLOT);
  const firstFreeSlot = FIRST_SLOT + slots;
  const inPortSlots = listRequested(
    request,
    ({ bus, slot }) => bus === 0 && slot < FIRST_SLOT + slots,
  );
  const ports = `${String(counts.required)} PCIe ports`;
  for (const device of inPortSlots) {
    const problem = `${ports} take the slots of bus 0 below ${String(firstFreeSlot)}; use a slot from ${String(firstFreeSlot)} to ${String(LAST_ROOT_COMPLEX_SLOT)}, or another bus`;
    placement.report(device, problem);
  }
  if (inPortSlots.length > 0) return;
  const tooHigh = listRequested(request, ({ bus }) => bus > counts.possible);
  for (const device of tooHigh) {
    const problem = `only ${String(counts.possible)} PCIe ports fit beside the devices on bus 0; the last address behind a port is ${printLastAddress(counts)}`;
    placement.report(device, problem);
  }
  if (tooHigh.length > 0) return;
  placement.problems.push({ message: `${ports} take the slots of a device on bus 0` });
}

function reportTooFewVectors(
  request: TopologyRequest,
  placement: Placement,
  counts: PortCounts,
): void {
  const { required, possible, used } = counts;
  const vcpus = `${String(request.vcpus)} vCPUs`;
  const tooHigh = used > possible ? [] : listRequested(request, ({ bus }) => bus > possible);
  for (const device of tooHigh) {
    const problem = `the guest has interrupt vectors for ${String(possible)} PCIe ports with ${vcpus}: give the VM more vCPUs, or use an address up to ${printLastAddress(counts)}`;
    placement.report(device, problem);
  }
  if (tooHigh.length > 0) return;
  const message = `${String(request.nics.length)} interfaces and ${String(required)} PCIe ports need more interrupt vectors than ${vcpus} have: give the VM more vCPUs`;
  placement.problems.push({ message });
}

function countPortsThatFit(addresses: readonly PciAddress[]): number {
  const slots = addresses
    .filter(({ bus, slot }) => bus === 0 && slot >= FIRST_SLOT)
    .map(({ slot }) => slot);
  return (Math.min(LAST_ROOT_COMPLEX_SLOT + 1, ...slots) - FIRST_SLOT) * FUNCTIONS_PER_SLOT;
}

const DEVICE_KINDS: Readonly<Record<string, DeviceKind>> = {
  disk: "disk",
  scsi: "scsi",
  usb: "usb",
  input: "input",
  sata: "plain",
  display: "plain",
  watchdog: "plain",
};

function findKind(device: FixedDevice): DeviceKind {
  return DEVICE_KINDS[device.split(":")[0] ?? ""] ?? "other";
}

/** Plans all ports up to the last used port. Then adds `reserve` ports, or ports up to `portCount`, as far as slots and vectors suffice. */
function planPorts(request: TopologyRequest, placement: Placement): readonly RootPort[] {
  if (!hasPorts(request)) return [];
  const { fixed, bridges } = placement;
  const addresses = [...fixed.values(), ...placement.addresses.values()];
  const portAddresses = addresses.filter(({ bus, slot }) => bus > 0 && slot === 0);
  // A bridge with bus number N needs root port N - 1 and takes the place of root port N. Both ports count as used, but port N is not built.
  const buses = [
    ...portAddresses.map(({ bus }) => bus),
    ...[...bridges.keys()].flatMap((bus) => [bus - 1, bus]),
  ];
  const requiredPorts = Math.max(0, ...buses);
  const portLimit = countPortsThatFit(addresses);
  const devices = [...fixed.keys()].map(findKind);
  const vectors = freeVectors(request.vcpus, { ports: 0, devices, nics: request.nics });
  const counts = { required: requiredPorts, used: buses.length };
  if (requiredPorts > portLimit)
    reportTooFewSlots(request, placement, { ...counts, possible: portLimit });
  if (requiredPorts > vectors)
    reportTooFewVectors(request, placement, { ...counts, possible: vectors });
  const count = Math.max(
    requiredPorts,
    Math.min(request.portCount ?? buses.length + request.reserve, portLimit, vectors),
  );
  return buildRootPorts(count).filter(({ index }) => !bridges.has(index));
}

/** Plans the domain's addresses. A device retains its previous address after other devices are added and after a restart. */
export function planTopology(request: TopologyRequest): PlannedTopology {
  const placement = placeDevices(request);
  const ports = planPorts(request, placement);
  const { problems, addresses, fixed, bridges } = placement;
  return problems.length > 0
    ? { ok: false, problems }
    : {
        ok: true,
        topology: {
          ports,
          bridges: [...bridges.values()],
          nicAddresses: addresses,
          fixedAddresses: fixed,
        },
      };
}
