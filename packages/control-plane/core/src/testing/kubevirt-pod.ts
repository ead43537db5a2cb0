// SPDX-License-Identifier: Apache-2.0
// Rows about the pod's annotation and `status.interfaces`.
import type { IfaceStatus, Network } from "@patchbay/api";
import {
  printNetworks,
  type NetworkSelection,
  type NetworkStatus,
} from "@patchbay/api/annotations";
import { collectIfaceFacts, type IfaceSources } from "../nics/phase.ts";
import { toAlias } from "../nics/names.ts";
import { buildTargetPodView } from "../migration/control/target-nics.ts";
import { attachmentStatuses } from "../status/vmi.ts";
import { planPodNetworks } from "../vm/pod/pod-networks.ts";
import { buildIfaceStatuses } from "../status/node-vm.ts";
import { ours, same, vmiOf, type Cases, type RowNics } from "./kubevirt-case.ts";

const KEY = "k8s.v1.cni.cncf.io/networks";
const NOT_A_BRIDGE = "bindings other than bridge are not built: they get no element";

interface AnnotationRow extends RowNics {
  readonly currentAnnotation?: readonly NetworkSelection[];
}

function planElements(row: AnnotationRow): readonly NetworkSelection[] {
  return planPodNetworks({ vmi: vmiOf(row), bindings: {} }, row.currentAnnotation ?? []);
}

function printAnnotation(row: AnnotationRow): unknown {
  return { [KEY]: planElements(row) };
}

function printWritten(row: AnnotationRow): unknown {
  const elements = planElements(row);
  const changes = printNetworks(elements) !== printNetworks(row.currentAnnotation ?? []);
  return { [KEY]: changes ? printNetworks(elements) : "(key not set)" };
}

interface TargetRow extends RowNics {
  /** Pod NICs on the source, in the order of the networks. */
  readonly sourceStatuses: readonly string[];
}

function targetAnnotationOf(row: TargetRow): unknown {
  const { interfaces, networks, sourceStatuses } = row;
  const qualifiedNetworks = (networks ?? []).map(qualified);
  const vmi = vmiOf({ interfaces, networks: qualifiedNetworks });
  const attachments = qualifiedNetworks.map(({ name, multus }, index) => ({
    name,
    podInterfaceName: sourceStatuses[index] ?? "",
    state: "Attached" as const,
    ...(multus === undefined ? {} : { networkName: multus.networkName }),
  }));
  const reported = attachments.map(({ name, podInterfaceName }) => ({
    name,
    podInterfaceName,
    queueCount: 1,
  }));
  const status = { ...vmi.status, attachments, interfaces: reported };
  return {
    [KEY]: planPodNetworks({ vmi: buildTargetPodView({ ...vmi, status }), bindings: {} }, []),
  };
}

export const ANNOTATION_CASES: Cases = {
  "three bridge secondaries, one NAD in another namespace": same(printAnnotation),
  "requested MAC goes into the element": ours(
    NOT_A_BRIDGE,
    { [KEY]: [{ name: "default", namespace: "default", interface: "pod37a8eec1ce1" }] },
    printAnnotation,
  ),
  "plugin NAD element with logic network name": ours(
    NOT_A_BRIDGE,
    {
      [KEY]: [
        { name: "test1", namespace: "default", interface: "pod16477688c0e" },
        { name: "test1", namespace: "other-namespace", interface: "podb1f51a511f1" },
      ],
    },
    printAnnotation,
  ),
  "plugin NAD with explicit namespace": ours(NOT_A_BRIDGE, { [KEY]: [] }, printAnnotation),
  "live plug next to an existing secondary, hashed": same(printAnnotation),
  "live SR-IOV plug changes nothing": same(printWritten),
  "unplugging the last secondary writes an empty value": ours(
    "an empty list says the same as an empty text, and needs no case of its own",
    { [KEY]: "[]" },
    printWritten,
  ),
  "migration target keeps ordinal names": same(targetAnnotationOf),
  "migration target: naming upgrade gate gives nothing": ours(
    "names are never another scheme's: a target keeps the source's, whatever they are",
    {
      [KEY]: [
        { name: "test1", namespace: "default", interface: "net1" },
        { name: "test1", namespace: "other-namespace", interface: "net2" },
      ],
    },
    targetAnnotationOf,
  ),
};

interface StatusRow {
  readonly networks: readonly Network[];
  readonly status: readonly IfaceStatus[];
  readonly networkStatus: readonly NetworkStatus[] | null;
}

const MAC = "02:00:00:00:00:01";

/** Converts the status that KubeVirt keeps into what Patchbay observes: the same NICs, with the guest agent's report. */
function toObserved(status: readonly IfaceStatus[]): Pick<IfaceSources, "nics" | "guest"> {
  const inDomain = status.filter(({ infoSource }) => infoSource?.includes("domain") === true);
  const reported = inDomain.filter(
    ({ infoSource }) => infoSource?.includes("guest-agent") === true,
  );
  const nic = { mac: MAC, linkUp: true, model: "virtio", queues: 1 };
  const unknown = { value: undefined };
  return {
    nics: inDomain.map(({ name = "" }) => ({ ...nic, alias: toAlias(name) })),
    guest: {
      nics: new Map(reported.map(() => [MAC, { ipv4: unknown, ipv6: unknown }])),
      otherLinks: [],
    },
  };
}

/** Names and info sources after both controllers have written the status. */
function toStatus({ networks, status, networkStatus }: StatusRow): unknown {
  const interfaces = networks.map(({ name }) => ({ name, bridge: {} }));
  const own = networks.map((network) => qualified(network));
  const vmi = vmiOf({ interfaces, networks: own });
  const statuses = (networkStatus ?? []).map((entry) => ({
    ...entry,
    name: inNamespace(entry.name),
  }));
  const pod = { elements: [], networkStatus: statuses, errors: {}, podIps: [] };
  const attachments = [...attachmentStatuses({ vmi, bindings: {} }, pod)];
  const known = { links: [], bindings: {}, ...toObserved(status) };
  const sources = { vmi: { ...vmi, status: { attachments } }, ...known };
  const ifaces = collectIfaceFacts(sources);
  return buildIfaceStatuses({ ifaces, blockedReasons: {}, portless: new Map(), now: "" }).map(
    ({ name, podInterfaceName, infoSource }) => ({
      name,
      podInterfaceName,
      ...(infoSource === "" ? {} : { infoSource }),
    }),
  );
}

/** Patchbay compares NAMESPACE/NAME as Multus writes it; the rows omit the namespace. */
function inNamespace(name: string): string {
  return name.includes("/") || name === "" ? name : `default/${name}`;
}

function qualified(network: Network): Network {
  const { multus } = network;
  if (multus === undefined) return network;
  return { ...network, multus: { ...multus, networkName: inNamespace(multus.networkName) } };
}

export const STATUS_CASES: Cases = {
  "no networks, status stays empty": same(toStatus),
  "primary keeps its info source": same(toStatus),
  "multus default network is reported as primary": same(toStatus),
  "secondary reported, hashed name": same(toStatus),
  "primary is put before the secondary": same(toStatus),
  "other info source survives a missing report": ours(
    "a word of the guest is shown of a NIC that the domain has: here it has none",
    [{ name: "iface1", podInterfaceName: "pod7e0055a6880" }],
    toStatus,
  ),
};
