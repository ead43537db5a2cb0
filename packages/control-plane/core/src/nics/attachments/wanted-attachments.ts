// SPDX-License-Identifier: Apache-2.0
// Attachments that a pod's annotation requests, and their interface names. Source: NPWG 1.3 section 4.1.
import type { NetworkSelection } from "@patchbay/api/annotations";
import { firstByKey } from "@patchbay/api/values";

export interface WantedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  readonly selection: NetworkSelection;
}

export interface PresentAttachment {
  /** NAMESPACE/NAME of the network definition, or the network's name if it has no definition. */
  readonly network: string;
  readonly interfaceName: string;
}

function readInterfaceName({
  interface: requested = "",
  interfaceRequest = "",
}: NetworkSelection): string {
  return requested === "" ? interfaceRequest : requested;
}

function qualifySelection(
  { name, namespace: own = "" }: NetworkSelection,
  namespace: string,
): string {
  return `${own === "" ? namespace : own}/${name}`;
}

/** The pod's existing attachments. Annotation elements without an interface name reuse the names of attachments on the same network. */
interface ExistingAttachments {
  /** Attachments that other components created, even if net-agent adopted them. */
  readonly foreign: readonly PresentAttachment[];
  readonly requested: readonly PresentAttachment[];
}

interface NamingState {
  readonly usedNames: Set<string>;
  readonly reservedNames: ReadonlySet<string>;
  readonly foreignNetworks: ReadonlyMap<string, ReadonlySet<string>>;
  readonly unusedForeign: UnusedAttachments;
  freeIndex: number;
}

/** Existing NICs by network. Used names never become free again, so a NIC is skipped at most once. */
class UnusedAttachments {
  readonly #byNetwork: ReadonlyMap<string, Iterator<PresentAttachment>>;

  constructor(present: readonly PresentAttachment[]) {
    const groups = Map.groupBy(present, ({ network }) => network);
    this.#byNetwork = new Map([...groups].map(([network, nics]) => [network, nics.values()]));
  }

  take(network: string, usedNames: ReadonlySet<string>): PresentAttachment | undefined {
    const nics = this.#byNetwork.get(network);
    for (let nic = nics?.next(); nic?.done === false; nic = nics?.next())
      if (!usedNames.has(nic.value.interfaceName)) return nic.value;
    return undefined;
  }
}

/** Compares interface names so that `net2` sorts before `net10`. */
function compareInterfaceNames(left: PresentAttachment, right: PresentAttachment): number {
  return left.interfaceName.localeCompare(right.interfaceName, "en", { numeric: true });
}

/** Returns the interface name that Multus assigns to an unnamed element. Index 0 is `net1`. Source: Multus getIfname. */
function buildDefaultName(index: number): string {
  return `net${String(index + 1)}`;
}

function findFreeName(names: NamingState): string {
  for (; ; names.freeIndex += 1) {
    const name = buildDefaultName(names.freeIndex);
    if (!names.usedNames.has(name) && !names.reservedNames.has(name)) return name;
  }
}

/**
 * Returns an interface name for an unnamed element: Multus's default name unless it is in use, or else the name of another component's
 * NIC on the network, or else a free name. The NIC that Multus created may have another number than the default name, because Multus
 * also counts networks that the cluster adds to all pods.
 */
function generateName(network: string, index: number, names: NamingState): string {
  const defaultInterfaceName = buildDefaultName(index);
  const foreignNetworks = names.foreignNetworks.get(defaultInterfaceName);
  const isInUse =
    foreignNetworks !== undefined && foreignNetworks.size > (foreignNetworks.has(network) ? 1 : 0);
  if (!isInUse && !names.usedNames.has(defaultInterfaceName)) return defaultInterfaceName;
  return names.unusedForeign.take(network, names.usedNames)?.interfaceName ?? findFreeName(names);
}

interface NamedElement {
  readonly network: string;
  readonly selection: NetworkSelection;
  readonly name?: string;
}

function readElements(
  elements: readonly NetworkSelection[],
  namespace: string,
): readonly NamedElement[] {
  return elements.map((selection) => {
    const network = qualifySelection(selection, namespace);
    const name = readInterfaceName(selection);
    return { network, selection, ...(name === "" ? {} : { name }) };
  });
}

/** Assigns names of existing NICs to unnamed elements. A NIC named after the element's position (`net1` for index 0) takes precedence. */
function withRetainedNames(
  elements: readonly NamedElement[],
  own: readonly PresentAttachment[],
): readonly NamedElement[] {
  const usedNames = new Set(elements.flatMap(({ name }) => name ?? []));
  const ownNics = new Set(own.map((entry) => printNic(entry.network, entry.interfaceName)));
  const unusedNics = new UnusedAttachments(own);
  const placed = elements.map((element, index) => {
    const name = buildDefaultName(index);
    const isAttached = ownNics.has(printNic(element.network, name));
    if (element.name !== undefined || !isAttached || usedNames.has(name)) return element;
    usedNames.add(name);
    return { ...element, name };
  });
  return placed.map((element) => {
    if (element.name !== undefined) return element;
    const name = unusedNics.take(element.network, usedNames)?.interfaceName;
    if (name === undefined) return element;
    usedNames.add(name);
    return { ...element, name };
  });
}

function printNic(network: string, interfaceName: string): string {
  return `${interfaceName} ${network}`;
}

function mapNetworks(
  present: readonly PresentAttachment[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const groups = Map.groupBy(present, ({ interfaceName }) => interfaceName);
  return new Map(
    [...groups].map(([name, nics]) => [name, new Set(nics.map(({ network }) => network))]),
  );
}

export function listWanted(
  elements: readonly NetworkSelection[],
  namespace: string,
  { foreign, requested: own }: ExistingAttachments,
): readonly WantedAttachment[] {
  const named = withRetainedNames(readElements(elements, namespace), own);
  const names: NamingState = {
    usedNames: new Set(named.flatMap(({ name }) => name ?? [])),
    reservedNames: new Set([
      ...named.flatMap(({ name }, index) => (name === undefined ? [buildDefaultName(index)] : [])),
      ...[...foreign, ...own].map(({ interfaceName }) => interfaceName),
    ]),
    foreignNetworks: mapNetworks(foreign),
    unusedForeign: new UnusedAttachments(foreign.toSorted(compareInterfaceNames)),
    freeIndex: 0,
  };
  return named.map(({ network, selection, name }, index) => {
    const interfaceName = name ?? generateName(network, index, names);
    names.usedNames.add(interfaceName);
    return { network, interfaceName, selection };
  });
}

interface SplitWanted {
  readonly accepted: readonly WantedAttachment[];
  readonly duplicates: readonly WantedAttachment[];
}

/** Separates attachments whose interface name is in use by an earlier attachment in the list. */
export function splitDuplicates(wanted: readonly WantedAttachment[]): SplitWanted {
  const firstByName = firstByKey(wanted, ({ interfaceName }) => interfaceName);
  const isFirst = (entry: WantedAttachment): boolean =>
    firstByName.get(entry.interfaceName) === entry;
  return {
    accepted: wanted.filter(isFirst),
    duplicates: wanted.filter((entry) => !isFirst(entry)),
  };
}
