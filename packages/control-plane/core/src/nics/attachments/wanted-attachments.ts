// SPDX-License-Identifier: Apache-2.0
// Attachments that a pod's annotation requests, and their interface names. Source: NPWG 1.3 section 4.1.
import type { NetworkSelection } from "@patchbay/api/annotations";

export interface WantedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  readonly selection: NetworkSelection;
}

export interface PresentAttachment {
  /** NAMESPACE/NAME of the network definition, or the name of a network without one. */
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

/** The pod's attachments, from which elements without an interface name get their names. */
interface Present {
  /** Attachments of other components, including adopted ones. */
  readonly foreign: readonly PresentAttachment[];
  readonly requested: readonly PresentAttachment[];
}

interface NameState extends Present {
  readonly usedNames: Set<string>;
  readonly placed: ReadonlySet<string>;
}

/** Compares interface names so that `net2` sorts before `net10`. */
function byNumber(left: PresentAttachment, right: PresentAttachment): number {
  return left.interfaceName.localeCompare(right.interfaceName, "en", { numeric: true });
}

/** Returns Multus's name for an element without a name. Index 0 is `net1`. Source: Multus getIfname. */
function defaultName(index: number): string {
  return `net${String(index + 1)}`;
}

function findFreeName({ usedNames, placed, foreign, requested: own }: NameState): string {
  const present = new Set([...foreign, ...own].map(({ interfaceName }) => interfaceName));
  const isFree = (name: string): boolean =>
    !usedNames.has(name) && !placed.has(name) && !present.has(name);
  for (let index = 0; ; index += 1) if (isFree(defaultName(index))) return defaultName(index);
}

function findUnused(
  present: readonly PresentAttachment[],
  network: string,
  usedNames: ReadonlySet<string>,
): PresentAttachment | undefined {
  return present.find((entry) => entry.network === network && !usedNames.has(entry.interfaceName));
}

/**
 * Returns a name for an element without an interface name and without a NIC of net-agent. Multus also counts networks that a
 * cluster adds to every pod, so a NIC that it attached for the element may have another name.
 */
function generateName(network: string, index: number, names: NameState): string {
  const byDefault = defaultName(index);
  const isInUse = names.foreign.some(
    (entry) => entry.interfaceName === byDefault && entry.network !== network,
  );
  if (!isInUse && !names.usedNames.has(byDefault)) return byDefault;
  return findUnused(names.foreign, network, names.usedNames)?.interfaceName ?? findFreeName(names);
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

/** Assigns names of existing NICs to elements without a name, first the NICs whose name matches the element's position. */
function withRetainedNames(
  elements: readonly NamedElement[],
  own: readonly PresentAttachment[],
): readonly NamedElement[] {
  const usedNames = new Set(elements.flatMap(({ name }) => name ?? []));
  const placed = elements.map((element, index) => {
    const name = defaultName(index);
    const isAttached = own.some((entry) => matches(entry, { ...element, name }));
    if (element.name !== undefined || !isAttached || usedNames.has(name)) return element;
    usedNames.add(name);
    return { ...element, name };
  });
  return placed.map((element) => {
    if (element.name !== undefined) return element;
    const name = findUnused(own, element.network, usedNames)?.interfaceName;
    if (name === undefined) return element;
    usedNames.add(name);
    return { ...element, name };
  });
}

function matches(entry: PresentAttachment, { network, name }: NamedElement): boolean {
  return entry.network === network && entry.interfaceName === name;
}

export function listWanted(
  elements: readonly NetworkSelection[],
  namespace: string,
  { foreign, requested: own }: Present,
): readonly WantedAttachment[] {
  const named = withRetainedNames(readElements(elements, namespace), own);
  const names: NameState = {
    requested: own,
    foreign: foreign.toSorted(byNumber),
    usedNames: new Set(named.flatMap(({ name }) => name ?? [])),
    placed: new Set(
      named.flatMap(({ name }, index) => (name === undefined ? [defaultName(index)] : [])),
    ),
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

/** Separates attachments whose interface name an earlier attachment already requests. */
export function splitDuplicates(wanted: readonly WantedAttachment[]): SplitWanted {
  const isFirst = (entry: WantedAttachment, index: number): boolean =>
    wanted.findIndex((other) => other.interfaceName === entry.interfaceName) === index;
  return {
    accepted: wanted.filter(isFirst),
    duplicates: wanted.filter((entry, index) => !isFirst(entry, index)),
  };
}
