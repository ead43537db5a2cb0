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

/** What others have attached to the pod, in order, and the names that elements have by now. */
interface Names {
  readonly others: readonly PresentAttachment[];
  readonly taken: Set<string>;
  /** Whether an element got another name than its place gives it. */
  isShifted: boolean;
}

/** As they were counted: `net2` comes before `net10`. */
function byNumber(left: PresentAttachment, right: PresentAttachment): number {
  return left.interfaceName.localeCompare(right.interfaceName, "en", { numeric: true });
}

/** The name by place, where the default network has index 0. Source: Multus getIfname. */
function usualName(index: number): string {
  return `net${String(index + 1)}`;
}

/**
 * The name of an element that names none. Multus counts the networks that a cluster gives to every pod too, so that its
 * NIC may be there under another name, which no other element asks for.
 */
function generatedName(network: string, index: number, names: Names): string {
  const usual = usualName(index);
  const isHeld = names.others.some(
    (entry) => entry.interfaceName === usual && entry.network !== network,
  );
  if (!isHeld && !(names.isShifted && names.taken.has(usual))) return usual;
  const other = names.others.find(
    (entry) => entry.network === network && !names.taken.has(entry.interfaceName),
  );
  if (other === undefined) return usual;
  names.isShifted = true;
  return other.interfaceName;
}

/**
 * The attachments in the order of the annotation, with the pod's namespace and a name filled in; `others`: what was
 * attached by others, also what was adopted of it.
 */
export function listWanted(
  elements: readonly NetworkSelection[],
  namespace: string,
  others: readonly PresentAttachment[],
): readonly WantedAttachment[] {
  const inOrder = others.toSorted(byNumber);
  const names: Names = {
    others: inOrder,
    taken: new Set(elements.map(namedInterfaceOf)),
    isShifted: false,
  };
  return elements.map((selection, index) => {
    const network = networkOf(selection, namespace);
    const named = namedInterfaceOf(selection);
    const interfaceName = named === "" ? generatedName(network, index, names) : named;
    names.taken.add(interfaceName);
    return { network, interfaceName, selection };
  });
}

/** Attachments that ask for names, and those whose names others ask for before them. */
export interface SplitWanted {
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
