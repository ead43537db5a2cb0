// SPDX-License-Identifier: Apache-2.0
// Which attachments does a pod's annotation ask for, and under which names? Source: NPWG 1.3 section 4.1.
import type { NetworkSelection } from "@patchbay/api";

/** One attachment that a pod asks for, with its defaults filled in. */
export interface WantedAttachment {
  /** NAMESPACE/NAME of the network definition. */
  readonly network: string;
  /** NIC in the pod. */
  readonly interfaceName: string;
  readonly selection: NetworkSelection;
}

/** An attachment that the pod has. */
export interface PresentAttachment {
  /** NAMESPACE/NAME of the network definition, or another name for a network that has none. */
  readonly network: string;
  readonly interfaceName: string;
}

/** The NIC that an element names; empty where it names none. */
function namedInterfaceOf({
  interface: asked = "",
  interfaceRequest = "",
}: NetworkSelection): string {
  return asked === "" ? interfaceRequest : asked;
}

function networkOf({ name, namespace: own = "" }: NetworkSelection, namespace: string): string {
  return `${own === "" ? namespace : own}/${name}`;
}

/** What a pod has, from which elements without a name get theirs. */
interface Present {
  /** What others have attached, also what was adopted of it. */
  readonly others: readonly PresentAttachment[];
  /** What is in place of what the annotation has asked for. */
  readonly own: readonly PresentAttachment[];
}

/** What is known while names are given. */
interface Names extends Present {
  /** Names that elements ask for, have or have been given. */
  readonly taken: Set<string>;
  /** Names that places will give. */
  readonly placed: ReadonlySet<string>;
}

/** As they were counted: `net2` comes before `net10`. */
function byNumber(left: PresentAttachment, right: PresentAttachment): number {
  return left.interfaceName.localeCompare(right.interfaceName, "en", { numeric: true });
}

/** The name by place, where the default network has index 0. Source: Multus getIfname. */
function usualName(index: number): string {
  return `net${String(index + 1)}`;
}

/** A name of that form that nothing has and nothing will get. */
function freeName({ taken, placed, others, own }: Names): string {
  const present = new Set([...others, ...own].map(({ interfaceName }) => interfaceName));
  const isFree = (name: string): boolean =>
    !taken.has(name) && !placed.has(name) && !present.has(name);
  for (let index = 0; ; index += 1) if (isFree(usualName(index))) return usualName(index);
}

function findUntaken(
  present: readonly PresentAttachment[],
  network: string,
  taken: ReadonlySet<string>,
): PresentAttachment | undefined {
  return present.find((entry) => entry.network === network && !taken.has(entry.interfaceName));
}

/**
 * The name of an element that names none and has no NIC yet. Multus counts the networks that a cluster gives to every pod
 * too, so that its NIC may be there under another name, which no other element asks for.
 */
function generatedName(network: string, index: number, names: Names): string {
  const usual = usualName(index);
  const isHeld = names.others.some(
    (entry) => entry.interfaceName === usual && entry.network !== network,
  );
  if (!isHeld && !names.taken.has(usual)) return usual;
  return findUntaken(names.others, network, names.taken)?.interfaceName ?? freeName(names);
}

/** An element, and the name that it asks for or has. */
interface Known {
  readonly network: string;
  readonly selection: NetworkSelection;
  readonly name?: string;
}

/** The elements in order; those that name a NIC have their names. */
function readElements(elements: readonly NetworkSelection[], namespace: string): readonly Known[] {
  return elements.map((selection) => {
    const network = networkOf(selection, namespace);
    const name = namedInterfaceOf(selection);
    return { network, selection, ...(name === "" ? {} : { name }) };
  });
}

/**
 * With the names that elements have which name none: places change when elements before them come and go, and what is
 * attached stays. What is at its place keeps it before others look for theirs.
 */
function withKeptNames(
  elements: readonly Known[],
  own: readonly PresentAttachment[],
): readonly Known[] {
  const taken = new Set(elements.flatMap(({ name }) => name ?? []));
  const placed = elements.map((element, index) => {
    const name = usualName(index);
    const isThere = own.some((entry) => isAt(entry, { ...element, name }));
    if (element.name !== undefined || !isThere || taken.has(name)) return element;
    taken.add(name);
    return { ...element, name };
  });
  return placed.map((element) => {
    if (element.name !== undefined) return element;
    const name = findUntaken(own, element.network, taken)?.interfaceName;
    if (name === undefined) return element;
    taken.add(name);
    return { ...element, name };
  });
}

function isAt(entry: PresentAttachment, { network, name }: Known): boolean {
  return entry.network === network && entry.interfaceName === name;
}

/** The attachments in the order of the annotation, with the pod's namespace and a name filled in. */
export function listWanted(
  elements: readonly NetworkSelection[],
  namespace: string,
  { others, own }: Present,
): readonly WantedAttachment[] {
  const known = withKeptNames(readElements(elements, namespace), own);
  const names: Names = {
    own,
    others: others.toSorted(byNumber),
    taken: new Set(known.flatMap(({ name }) => name ?? [])),
    placed: new Set(
      known.flatMap(({ name }, index) => (name === undefined ? [usualName(index)] : [])),
    ),
  };
  return known.map(({ network, selection, name }, index) => {
    const interfaceName = name ?? generatedName(network, index, names);
    names.taken.add(interfaceName);
    return { network, interfaceName, selection };
  });
}

/** Attachments that ask for names, and those whose names others ask for before them. */
interface SplitWanted {
  readonly accepted: readonly WantedAttachment[];
  readonly duplicates: readonly WantedAttachment[];
}

/** Of several attachments with one interface name only the first counts. */
export function splitDuplicates(wanted: readonly WantedAttachment[]): SplitWanted {
  const isFirst = (entry: WantedAttachment, index: number): boolean =>
    wanted.findIndex((other) => other.interfaceName === entry.interfaceName) === index;
  return {
    accepted: wanted.filter(isFirst),
    duplicates: wanted.filter((entry, index) => !isFirst(entry, index)),
  };
}
