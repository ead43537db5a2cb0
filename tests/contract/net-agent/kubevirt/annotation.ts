// SPDX-License-Identifier: Apache-2.0
// The annotation `k8s.v1.cni.cncf.io/networks` exactly as virt-controller writes it. Pure. Sources: KubeVirt v1.0
// pkg/virt-controller/services/multus_annotations.go, v1.9 pkg/network/pod/annotations/generator.go,
// pkg/network/multus.
import type { NetworkStatus } from "@patchbay/api/annotations";
import {
  hashedScheme,
  isAbsent,
  isOrdinal,
  isSecondary,
  ordinalScheme,
  schemeOf,
  type NameScheme,
  type PlayedIface,
  type PlayedNetwork,
  type PlayedVmi,
} from "./vmi.ts";

export interface Version {
  readonly name: string;
  /** Members of an element in output order. */
  readonly members: readonly (keyof Element)[];
  /** Whether elements follow the order of networks or of interfaces. */
  readonly order: "networks" | "interfaces";
  /** Whether an empty list is written. */
  readonly writesEmpty: boolean;
  readonly hasBindings: boolean;
  /** A migration converts pods from ordinal to hashed names: gate PodSecondaryInterfaceNamingUpgrade, VEP 111. */
  readonly renames: boolean;
}

interface Element {
  readonly name: string;
  readonly namespace: string;
  readonly mac?: string;
  readonly interface?: string;
  readonly "cni-args"?: object;
}

const MODERN = {
  members: ["name", "namespace", "mac", "interface", "cni-args"],
  order: "interfaces",
  writesEmpty: true,
  hasBindings: true,
} as const;

export const VERSIONS: readonly Version[] = [
  {
    name: "v1.0",
    members: ["interface", "mac", "name", "namespace"],
    order: "networks",
    writesEmpty: false,
    hasBindings: false,
    renames: false,
  },
  { name: "v1.5", ...MODERN, renames: false },
  { name: "v1.9", ...MODERN, renames: true },
];

function splitName(text: string, own: string): Pick<Element, "name" | "namespace"> {
  const [first = "", ...rest] = text.split("/");
  return rest.length === 0
    ? { name: first, namespace: own }
    : { name: rest.join("/"), namespace: first };
}

function elementsOf(
  network: PlayedNetwork,
  { vmi, names, version }: { vmi: PlayedVmi; names: NameScheme; version: Version },
): readonly Element[] {
  const iface = vmi.interfaces.find(({ name }) => name === network.name);
  const mac = iface?.macAddress;
  const own: readonly Element[] =
    network.multus === undefined || !isSecondary(network)
      ? []
      : [
          {
            ...splitName(network.multus.networkName, vmi.namespace),
            ...(mac === undefined ? {} : { mac }),
            interface: names.get(network.name) ?? "",
          },
        ];
  const brought = vmi.bindings[iface?.binding?.name ?? ""]?.networkAttachmentDefinition;
  if (!version.hasBindings || brought === undefined) return own;
  const args = { "cni-args": { logicNetworkName: network.name } };
  return [...own, { ...splitName(brought, vmi.namespace), ...args }];
}

export interface SeenPod {
  readonly annotation: string;
  readonly seen: readonly NetworkStatus[];
}

function print(
  { vmi, interfaces }: { vmi: PlayedVmi; interfaces: readonly PlayedIface[] },
  names: NameScheme,
  version: Version,
): string {
  const find = (name: string): PlayedNetwork[] => vmi.networks.filter((one) => one.name === name);
  const named = new Set(interfaces.map(({ name }) => name));
  const networks =
    version.order === "interfaces"
      ? interfaces.flatMap(({ name }) => find(name))
      : vmi.networks.filter(({ name }) => named.has(name));
  const elements = networks.flatMap((network) => elementsOf(network, { vmi, names, version }));
  if (elements.length === 0) return "";
  return JSON.stringify(
    elements.map((element) =>
      Object.fromEntries(version.members.map((member) => [member, element[member]])),
    ),
  );
}

/** Annotation of a new pod; undefined: none. */
export function annotationOfNew(vmi: PlayedVmi, version: Version): string | undefined {
  const interfaces = vmi.interfaces.filter((iface) => !isAbsent(iface));
  const text = print({ vmi, interfaces }, hashedScheme(vmi.networks), version);
  return text === "" ? undefined : text;
}

/** Annotation of a migration's target pod. */
export function annotationOfTarget(
  vmi: PlayedVmi,
  source: SeenPod,
  version: Version,
): string | undefined {
  if (version.renames || !isOrdinal(source.seen)) return annotationOfNew(vmi, version);
  // Includes NICs to be unplugged, so that positions stay.
  return print({ vmi, interfaces: vmi.interfaces }, ordinalScheme(vmi.networks), version);
}

/** The new annotation of a running pod; undefined: unchanged. */
export function annotationOfLive(
  vmi: PlayedVmi,
  pod: SeenPod,
  version: Version,
): string | undefined {
  const isKnown = ({ name }: PlayedIface): boolean =>
    vmi.status.some((entry) => entry.name === name);
  const interfaces = vmi.interfaces.filter(
    (iface) => !isAbsent(iface) && (iface.sriov === undefined || isKnown(iface)),
  );
  const isNeeded = vmi.interfaces.some(isAbsent) || !interfaces.every(isKnown);
  if (!isNeeded) return undefined;
  const text = print({ vmi, interfaces }, schemeOf(vmi.networks, pod.seen), version);
  if (text === pod.annotation || (text === "" && !version.writesEmpty)) return undefined;
  return text;
}
