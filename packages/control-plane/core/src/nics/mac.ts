// SPDX-License-Identifier: Apache-2.0
// Chooses MACs of interfaces, requests MACs from networks, retains MACs over restarts, and finds MAC conflicts.
import {
  isAbsent,
  type Iface,
  type VmiSpec,
  isDefaultNetwork,
  names,
  type Attachment,
  type BindingRegistry,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
} from "@patchbay/api";
import {
  parseRetainedMacs,
  type NetworkSelection,
  type RetainedMac,
} from "@patchbay/api/annotations";
import { isSecondary } from "@patchbay/api/validate";
import { firstByKey, MAC_BYTES, normalizeMac, isNicMac } from "@patchbay/api/values";
import { findByName, ifacesOf, networkNameOf, networksOf, withNics } from "./nics.ts";
import { findReadyAttachment } from "./addresses/retained-addresses.ts";
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { resolveBinding } from "./bindings/resolve-binding.ts";
import { BINDINGS, type BindingModule } from "./bindings/binding.ts";

export type MacFacts = Pick<IfaceFacts, "iface" | "attachment"> & {
  readonly links?: Pick<LinkFacts, "mac">;
};

/** Returns the guest's MAC as lower case with colons: from the spec, or else the pod NIC, or else the attachment. */
export function findMac({ iface, attachment, links }: MacFacts): string {
  const mac = iface?.macAddress ?? links?.mac ?? attachment?.mac ?? "";
  return normalizeMac(mac);
}

/** Returns `size` random bytes. Callers supply the function, so that tests are deterministic. */
export type RandomBytes = (size: number) => Uint8Array;

/** Maximum number of random MACs to try. With 46 random bits, a second try is already improbable. */
const RANDOM_MAC_ATTEMPTS_MAX = 16;

function drawMac(randomBytes: RandomBytes): string {
  const bytes = [...randomBytes(MAC_BYTES)];
  // Makes the MAC locally administered and unicast. Source: IEEE 802, U/L and I/G bits.
  const first = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [first, ...bytes.slice(1)].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** Returns a random MAC that is not in `inUse` (lower case with colons), unless all attempts collide. */
export function chooseMac(inUse: ReadonlySet<string>, randomBytes: RandomBytes): string {
  for (let attempt = 1; attempt < RANDOM_MAC_ATTEMPTS_MAX; attempt += 1) {
    const mac = drawMac(randomBytes);
    if (!inUse.has(mac)) return mac;
  }
  return drawMac(randomBytes);
}

interface MacSources {
  readonly namespace: string;
  readonly bindings: BindingRegistry;
  /** Earlier specs of the same VM, the preferred spec first. An interface retains its MAC from an earlier spec with the same network. */
  readonly earlier: readonly VmiSpec[];
  readonly randomBytes: RandomBytes;
}

function findNetworkName(spec: VmiSpec, name: string, namespace: string): string | undefined {
  const network = findByName(networksOf(spec), name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

function printMacUse(mac: string, network: string | undefined): string {
  return `${normalizeMac(mac)} ${network ?? ""}`;
}

function mapNamesByMacUse(
  spec: VmiSpec,
  namespace: string,
): ReadonlyMap<string, ReadonlySet<string>> {
  const uses = new Map<string, Set<string>>();
  for (const iface of ifacesOf(spec)) {
    if (isAbsent(iface)) continue;
    const { name, macAddress = "" } = iface;
    const key = printMacUse(macAddress, findNetworkName(spec, name, namespace));
    uses.set(key, (uses.get(key) ?? new Set<string>()).add(name));
  }
  return uses;
}

function findEarlierMac(
  spec: VmiSpec,
  name: string,
  {
    namespace,
    earlier,
    macUses,
  }: MacSources & { readonly macUses: ReturnType<typeof mapNamesByMacUse> },
): string | undefined {
  const network = findNetworkName(spec, name, namespace);
  const isMacOfOtherIface = (mac: string): boolean => {
    const users = macUses.get(printMacUse(mac, network));
    return users !== undefined && users.size > (users.has(name) ? 1 : 0);
  };
  return earlier
    .filter((other) => findNetworkName(other, name, namespace) === network)
    .map((other) => findByName(ifacesOf(other), name)?.macAddress ?? "")
    .find((mac) => mac !== "" && !isMacOfOtherIface(mac));
}

/** Returns the binding's `macSource`; undefined if the interface has no network or its binding is refused. */
function findMacSource(
  iface: Iface,
  spec: VmiSpec,
  bindings: BindingRegistry,
): BindingModule["macSource"] | undefined {
  const network = findByName(networksOf(spec), iface.name);
  if (network === undefined) return undefined;
  const { kind } = resolveBinding(iface, network, bindings);
  return kind === "refused" ? undefined : BINDINGS[kind].macSource;
}

function hasMac({ macAddress = "" }: Iface): boolean {
  return macAddress !== "";
}

/** Checks whether Patchbay must choose the MAC of a secondary interface. It must if the spec sets no MAC and the network reports none. */
export function needsRandomMac(iface: Iface, spec: VmiSpec, bindings: BindingRegistry): boolean {
  if (hasMac(iface) || isAbsent(iface) || !isSecondary(iface, networksOf(spec))) return false;
  return findMacSource(iface, spec, bindings) === "random";
}

/** Returns all interfaces. Adds a MAC where Patchbay must choose one: the MAC from an earlier spec, or else a random MAC. */
export function withMacs(spec: VmiSpec, sources: MacSources): readonly Iface[] {
  const inUse = new Set(ifacesOf(spec).map((iface) => normalizeMac(iface.macAddress ?? "")));
  const macUses = mapNamesByMacUse(spec, sources.namespace);
  return ifacesOf(spec).map((iface) => {
    if (!needsRandomMac(iface, spec, sources.bindings)) return iface;
    const macAddress =
      findEarlierMac(spec, iface.name, { ...sources, macUses }) ??
      chooseMac(inUse, sources.randomBytes);
    inUse.add(normalizeMac(macAddress));
    return { ...iface, macAddress };
  });
}

export interface MacOwner {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  /** Whether the VM is stopped and does not start automatically. */
  readonly isHalted?: boolean;
}

export function listMacs(spec: VmiSpec): readonly string[] {
  return ifacesOf(spec).flatMap(({ macAddress = "" }) =>
    macAddress === "" ? [] : [normalizeMac(macAddress)],
  );
}

export interface MacConflict {
  readonly index: number;
  readonly mac: string;
  /** NAMESPACE/NAME of the interface's network. */
  readonly network: string;
  /** NAMESPACE/NAME of the other VM. */
  readonly owner: string;
  readonly isOwnerHalted: boolean;
  readonly isOtherNetwork: boolean;
}

/** Returns the layer-2 segment of the network NAMESPACE/NAME. Networks on the same bridge share a segment. */
export type FindSegment = (network: string) => string;

interface MacLocation {
  readonly mac: string;
  readonly network: string;
  readonly index: number;
}

function listMacLocations(owner: MacOwner): readonly MacLocation[] {
  return ifacesOf(owner.spec).flatMap((iface, index) => {
    const network = findNetworkName(owner.spec, iface.name, owner.namespace);
    const mac = iface.macAddress ?? "";
    if (network === undefined || mac === "" || isAbsent(iface)) return [];
    return [{ mac: normalizeMac(mac), network, index }];
  });
}

/** Returns interfaces of `own` whose MAC another VM has on the same segment. Of several such VMs, prefers one that is not halted. */
export function findMacConflicts(
  own: MacOwner,
  others: readonly MacOwner[],
  findSegment: FindSegment = (network) => network,
): readonly MacConflict[] {
  const inUse = new Map<string, { readonly owner: MacOwner; readonly network: string }>();
  const haltedFirst = [
    ...others.filter(({ isHalted }) => isHalted === true),
    ...others.filter(({ isHalted }) => isHalted !== true),
  ];
  for (const owner of haltedFirst) {
    if (owner.namespace === own.namespace && owner.name === own.name) continue;
    for (const { mac, network } of listMacLocations(owner)) {
      inUse.set(`${findSegment(network)} ${mac}`, { owner, network });
    }
  }
  return listMacLocations(own).flatMap(({ mac, network, index }) => {
    const found = inUse.get(`${findSegment(network)} ${mac}`);
    if (found === undefined) return [];
    const { namespace, name, isHalted } = found.owner;
    const owner = `${namespace}/${name}`;
    const isOtherNetwork = found.network !== network;
    return [{ index, mac, network, owner, isOwnerHalted: isHalted === true, isOtherNetwork }];
  });
}

interface OwnMacConflict {
  readonly index: number;
  readonly earlier: number;
  readonly mac: string;
  /** NAMESPACE/NAME of both networks. */
  readonly networks: readonly [later: string, earlier: string];
}

/** Finds NICs of one VM with the same MAC on different networks of one segment. Validation already rejects equal MACs on one network. */
export function findOwnMacConflicts(
  own: MacOwner,
  findSegment: FindSegment,
): readonly OwnMacConflict[] {
  // The first two networks suffice: a location's own network is at most one of the two.
  const firstLocations = new Map<string, readonly MacLocation[]>();
  return listMacLocations(own).flatMap((location) => {
    const key = `${findSegment(location.network)} ${location.mac}`;
    const known = firstLocations.get(key) ?? [];
    const isNew = known.length < 2 && known.every(({ network }) => network !== location.network);
    if (isNew) firstLocations.set(key, [...known, location]);
    const other = known.find(({ network }) => network !== location.network);
    if (other === undefined) return [];
    const networks = [location.network, other.network] as const;
    return [{ index: location.index, earlier: other.index, mac: location.mac, networks }];
  });
}

/** Describes a VM for a message. Omits the name of a VM in another namespace, which the user may not be allowed to read. */
export function describeMacOwner(owner: string, namespace: string): string {
  return owner.startsWith(`${namespace}/`) ? `VM ${owner}` : "a VM of another namespace";
}

type RetainedMacs = NonNullable<VmStatus["macAddresses"]>;

interface MacOnNetwork {
  readonly source: BindingModule["macSource"];
  /** NAMESPACE/NAME of the network attachment definition; unset for the pod's network. */
  readonly networkName?: string;
}

/**
 * Returns the source and network of the interface's MAC if the VM's status must retain the MAC. Undefined if Patchbay chooses the MAC
 * at random, if the interface is absent, or if its binding is refused.
 */
function findRetainableMac(
  vm: VirtualMachine,
  iface: Iface,
  bindings: BindingRegistry,
): MacOnNetwork | undefined {
  const { spec } = vm.spec.template;
  const network = findByName(networksOf(spec), iface.name);
  const source = findMacSource(iface, spec, bindings);
  if (network === undefined || source === undefined || source === "random" || isAbsent(iface))
    return undefined;
  // A MAC in the specification is recorded too, so that the interface retains this MAC if the user deletes the field `macAddress`.
  if (network.pod !== undefined) return { source };
  const networkName = networkNameOf(network, vm.metadata.namespace ?? "");
  return networkName === undefined ? undefined : { source, networkName };
}

/**
 * Returns the MACs to record in the VM's status: the running guest's MACs, or else the recorded MACs. Drops interfaces that
 * were removed or moved to another network.
 */
export function collectRetainedMacs(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  bindings: BindingRegistry,
): RetainedMacs {
  return ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const { name } = iface;
    const retainable = findRetainableMac(vm, iface, bindings);
    if (retainable === undefined) return [];
    const { networkName } = retainable;
    const isReported =
      networkName === undefined || findReadyAttachment(vmi, name, networkName) !== undefined;
    const reported = isReported ? (findByName(vmi?.status?.interfaces, name)?.mac ?? "") : "";
    const recorded = findByName(vm.status?.macAddresses, name);
    const known = recorded?.networkName === networkName ? recorded?.macAddress : undefined;
    // The launcher's report is not trusted, and an invalid MAC would make the VMI invalid.
    const mac = isNicMac(reported) ? normalizeMac(reported) : known;
    if (mac === undefined) return [];
    return [{ name, ...(networkName === undefined ? {} : { networkName }), macAddress: mac }];
  });
}

function printRecordedKey(name: string, networkName: string | undefined): string {
  return JSON.stringify([name, networkName]);
}

/** Returns the VM's spec. An interface that has no MAC in the spec gets the MAC that the VM's status records for it. */
export function withRecordedMacs({ metadata, spec, status }: VirtualMachine): VmiSpec {
  const { template } = spec;
  const { macAddresses: recorded = [] } = status ?? {};
  if (recorded.length === 0) return template.spec;
  const namespace = metadata.namespace ?? "";
  const recordedByKey = firstByKey(recorded, (each) =>
    printRecordedKey(each.name, each.networkName),
  );
  const ifaces = ifacesOf(template.spec).map((iface) => {
    const networkName = findNetworkName(template.spec, iface.name, namespace);
    const last = recordedByKey.get(printRecordedKey(iface.name, networkName));
    return hasMac(iface) || last === undefined ? iface : { ...iface, macAddress: last.macAddress };
  });
  return withNics(template.spec, networksOf(template.spec), ifaces);
}

/** Whether the pods' default network passes frames with any source MAC, so that a pod NIC may have a MAC that CNI did not assign. */
export interface PodNetworkPolicy {
  readonly passesAnyMac: boolean;
}

function listRetainedMacs(
  vm: VirtualMachine,
  isWanted: (retainable: MacOnNetwork) => boolean,
  bindings: BindingRegistry,
): RetainedMacs {
  const { spec } = vm.spec.template;
  return collectRetainedMacs(vm, undefined, bindings).filter(({ name }) => {
    const iface = findByName(ifacesOf(spec), name);
    if (iface === undefined || hasMac(iface)) return false;
    const retainable = findRetainableMac(vm, iface, bindings);
    return retainable !== undefined && isWanted(retainable);
  });
}

function isSetByPatchbay(
  { source, networkName }: MacOnNetwork,
  { passesAnyMac }: PodNetworkPolicy,
): boolean {
  return source === "guest" || (passesAnyMac && networkName === undefined);
}

/** Sets the previous guest's MAC on interfaces whose MAC Patchbay may set itself. For the others, see {@link withLastMacs}. */
export function withRetainedMacs(
  vm: VirtualMachine,
  ifaces: readonly Iface[],
  { bindings, podNetwork }: { bindings: BindingRegistry; podNetwork: PodNetworkPolicy },
): readonly Iface[] {
  const retained = listRetainedMacs(vm, (each) => isSetByPatchbay(each, podNetwork), bindings);
  return ifaces.map((iface) => {
    const macAddress = findByName(retained, iface.name)?.macAddress;
    return macAddress === undefined ? iface : { ...iface, macAddress };
  });
}

/** Annotates the VMI with the MACs that its networks assigned last, so that the same MACs are requested again. */
export function withLastMacs(
  vmi: VirtualMachineInstance,
  vm: VirtualMachine,
  { bindings, podNetwork }: { bindings: BindingRegistry; podNetwork: PodNetworkPolicy },
): VirtualMachineInstance {
  const retained = listRetainedMacs(vm, (each) => !isSetByPatchbay(each, podNetwork), bindings);
  if (retained.length === 0) return vmi;
  const annotation = { [names.RETAINED_MACS_ANNOTATION]: JSON.stringify(retained) };
  const annotations = { ...vmi.metadata.annotations, ...annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

export function readRetainedMacs(vmi: VirtualMachineInstance): readonly RetainedMac[] {
  return parseRetainedMacs(vmi.metadata.annotations?.[names.RETAINED_MACS_ANNOTATION]);
}

/**
 * Returns the MAC to request from the pod's default network. Returns undefined if no MAC is known, or if the interface uses masquerade,
 * which needs no particular MAC on the pod network.
 */
export function findPodNetworkMac(vmi: VirtualMachineInstance): string | undefined {
  const { spec, metadata } = vmi;
  const iface = ifacesOf(spec).find(({ name }) => {
    const network = findByName(networksOf(spec), name);
    return network !== undefined && isDefaultNetwork(network);
  });
  if (iface === undefined || iface.masquerade !== undefined) return undefined;
  const ownNetworkName = findNetworkName(spec, iface.name, metadata.namespace ?? "");
  const retained = readRetainedMacs(vmi).find(
    ({ name, networkName }) => name === iface.name && networkName === ownNetworkName,
  );
  const mac = iface.macAddress ?? retained?.macAddress ?? "";
  return isNicMac(mac) ? normalizeMac(mac) : undefined;
}

type RequestedMac = Pick<NetworkSelection, "mac" | "io.patchbay.kept-mac">;

/**
 * Returns the MAC to request from a secondary network: the spec's MAC, or else the running NIC's MAC during a network swap, or
 * else the previous guest's MAC. The network may assign another MAC only in the last case.
 */
export function requestMac(
  iface: Iface,
  vmi: VirtualMachineInstance,
  { networkName, retained }: { networkName: string; retained: readonly RetainedMac[] },
): RequestedMac {
  const { name, macAddress = "" } = iface;
  if (macAddress !== "") return { mac: macAddress };
  const isSwapping = vmi.status?.attachments?.some(
    (each) => each.name === name && each.networkName !== networkName && each.state === "Attached",
  );
  const current = findByName(vmi.status?.interfaces, name)?.mac ?? "";
  if (isSwapping === true) return isNicMac(current) ? { mac: normalizeMac(current) } : {};
  const last = retained.find((each) => each.name === name && each.networkName === networkName);
  return last === undefined ? {} : { mac: last.macAddress, "io.patchbay.kept-mac": true };
}

/** Returns the requested MAC if the network assigned a different one. Otherwise, or if the MAC was only preferred, returns undefined. */
export function findUnmetMac(
  element: NetworkSelection | undefined,
  assigned: string | undefined,
): string | undefined {
  const { mac = "", "io.patchbay.kept-mac": isPreferred } = element ?? {};
  if (mac === "" || isPreferred === true || assigned === undefined) return undefined;
  return normalizeMac(mac) === normalizeMac(assigned) ? undefined : mac;
}

export const MAC_CHANGED = "MacChanged";

function describeMacChange(
  { name, networkName, podInterfaceName, mac = "" }: Attachment,
  {
    retained,
    elements,
  }: {
    retained: ReadonlyMap<string, RetainedMac>;
    elements: ReadonlyMap<string | undefined, NetworkSelection>;
  },
): string | undefined {
  const element = elements.get(podInterfaceName);
  const last =
    networkName === undefined
      ? retained.get(name)?.macAddress
      : element?.["io.patchbay.kept-mac"] === true
        ? element.mac
        : undefined;
  if (last === undefined || !isNicMac(mac) || normalizeMac(mac) === normalizeMac(last))
    return undefined;
  const network = networkName ?? "the pod's network";
  return `interface ${name} now has MAC ${normalizeMac(mac)}, which ${network} assigned; it had ${normalizeMac(last)} before. Set macAddress in the specification if the guest needs one MAC`;
}

export function findMacChanges(
  vmi: VirtualMachineInstance,
  attachments: readonly Attachment[],
  elements: readonly NetworkSelection[],
): readonly string[] {
  const printNic = ({ name, podInterfaceName }: Attachment): string =>
    JSON.stringify([name, podInterfaceName]);
  const before = (vmi.status?.attachments ?? []).filter(({ state }) => state === "Attached");
  const attachedNics = new Set(before.map(printNic));
  const ofPodNetwork = readRetainedMacs(vmi).filter(({ networkName }) => networkName === undefined);
  const earlier = {
    retained: firstByKey(ofPodNetwork, ({ name }) => name),
    elements: firstByKey(elements, (each) => each.interface),
  };
  return attachments
    .filter((each) => each.state === "Attached" && !attachedNics.has(printNic(each)))
    .flatMap((each) => describeMacChange(each, earlier) ?? []);
}
