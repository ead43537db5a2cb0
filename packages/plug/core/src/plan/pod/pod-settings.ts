// SPDX-License-Identifier: Apache-2.0
// What of a VMI's spec is said of its pod in the words that Kubernetes acts on?
import type { Pod, VirtualMachineInstance } from "@patchbay/api";
import { normalizeAddress } from "../../addresses/normalize.ts";
import { hostnameOf } from "../../spec/hostname.ts";

type Settings = Pick<
  Pod["spec"],
  | "affinity"
  | "dnsConfig"
  | "dnsPolicy"
  | "hostname"
  | "nodeSelector"
  | "priorityClassName"
  | "schedulerName"
  | "subdomain"
  | "tolerations"
  | "topologySpreadConstraints"
>;

/** Members that are not undefined; an empty word asks for nothing. */
function given<T extends object>(members: {
  readonly [K in keyof T]: T[K] | undefined;
}): Partial<T> {
  const entries = Object.entries(members).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  // Every member that is left is of its own type.
  return Object.fromEntries(entries) as Partial<T>;
}

/** The API server refuses addresses with leading zeros, which KubeVirt accepts in a VMI. */
function dnsConfigOf({ dnsConfig }: VirtualMachineInstance["spec"]): Settings["dnsConfig"] {
  if (dnsConfig?.nameservers === undefined) return dnsConfig;
  return { ...dnsConfig, nameservers: dnsConfig.nameservers.map(normalizeAddress) };
}

/** What is passed on to the pod as the VMI says it. The pod has the guest's name, by which DNS finds it in its subdomain. */
export function podSettingsOf(vmi: VirtualMachineInstance): Settings {
  const { spec } = vmi;
  return given<Settings>({
    affinity: spec.affinity,
    dnsConfig: dnsConfigOf(spec),
    dnsPolicy: spec.dnsPolicy,
    hostname: hostnameOf(vmi),
    nodeSelector: spec.nodeSelector,
    priorityClassName: spec.priorityClassName,
    schedulerName: spec.schedulerName,
    subdomain: spec.subdomain,
    tolerations: spec.tolerations,
    topologySpreadConstraints: spec.topologySpreadConstraints,
  });
}
