// SPDX-License-Identifier: Apache-2.0
// Traffic metrics of VM NICs, with KubeVirt's names. Source: KubeVirt metrics/virt-handler/domainstats network_metrics.go.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { MetricFamily, Sample } from "./family.ts";

export interface DirectionCounts {
  readonly bytes: number;
  readonly packets: number;
  readonly errors: number;
  readonly dropped: number;
}

/** Kernel counters of a link. For a tap, `received` counts the frames that the guest sent. */
export interface LinkCounts {
  readonly name: string;
  readonly received: DirectionCounts;
  readonly transmitted: DirectionCounts;
}

export interface VmTraffic {
  readonly vmi: VirtualMachineInstance;
  /** Tap names by NIC name. */
  readonly taps: ReadonlyMap<string, string>;
  readonly links: readonly LinkCounts[];
}

/** Traffic of one NIC from the guest's point of view, since the creation of its tap. */
export interface NicCounts {
  readonly name: string;
  readonly received: DirectionCounts;
  readonly sent: DirectionCounts;
}

/** Returns the counters of each NIC, in the order of the taps. Omits a NIC whose tap does not exist. */
export function nicCounts({ taps, links }: Omit<VmTraffic, "vmi">): readonly NicCounts[] {
  return [...taps].flatMap(([name, tap]) => {
    const link = links.find((candidate) => candidate.name === tap);
    return link === undefined ? [] : [{ name, received: link.transmitted, sent: link.received }];
  });
}

interface NicTraffic {
  readonly labels: Sample["labels"];
  readonly receive: DirectionCounts;
  readonly transmit: DirectionCounts;
}

type Direction = "receive" | "transmit";

const TRAFFIC_COUNTERS = {
  bytes: { suffix: "bytes_total", help: "bytes" },
  packets: { suffix: "packets_total", help: "packets" },
  errors: { suffix: "errors_total", help: "packets with errors" },
  dropped: { suffix: "packets_dropped_total", help: "packets that were dropped" },
} as const;
const DIRECTION_VERBS = { receive: "received", transmit: "transmitted" } as const;

function toNicTraffic({ vmi, ...vm }: VmTraffic, node: string): readonly NicTraffic[] {
  const { namespace = "", name } = vmi.metadata;
  return nicCounts(vm).map(({ name: iface, received: receive, sent: transmit }) => ({
    receive,
    transmit,
    labels: { node, namespace, name, interface: iface },
  }));
}

function buildFamily(
  direction: Direction,
  count: keyof DirectionCounts,
  nics: readonly NicTraffic[],
): MetricFamily {
  const { suffix, help } = TRAFFIC_COUNTERS[count];
  return {
    name: `kubevirt_vmi_network_${direction}_${suffix}`,
    help: `What the guest's NIC has ${DIRECTION_VERBS[direction]}: ${help}.`,
    type: "counter",
    samples: nics.map((nic) => ({ labels: nic.labels, value: nic[direction][count] })),
  };
}

/** Builds a metric that KubeVirt has deprecated, but that dashboards still use. */
function buildDeprecatedFamily(nics: readonly NicTraffic[]): MetricFamily {
  const sample = (nic: NicTraffic, type: "rx" | "tx", value: number): Sample => ({
    labels: { ...nic.labels, type },
    value,
  });
  return {
    name: "kubevirt_vmi_network_traffic_bytes_total",
    help: "Deprecated: what the guest's NIC has received (rx) and transmitted (tx), bytes.",
    type: "counter",
    samples: nics.flatMap((nic) => [
      sample(nic, "rx", nic.receive.bytes),
      sample(nic, "tx", nic.transmit.bytes),
    ]),
  };
}

export function trafficFamilies(vms: readonly VmTraffic[], node: string): readonly MetricFamily[] {
  const nics = vms.flatMap((vm) => toNicTraffic(vm, node));
  const counts = ["bytes", "packets", "errors", "dropped"] as const;
  const directions = ["receive", "transmit"] as const;
  const families = directions.flatMap((direction) =>
    counts.map((count) => buildFamily(direction, count, nics)),
  );
  return [...families, buildDeprecatedFamily(nics)];
}
