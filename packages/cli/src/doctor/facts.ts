// SPDX-License-Identifier: Apache-2.0
// Facts about an installation, for the doctor's checks.
import type { NetworkAttachmentDefinition, VirtualMachineInstance } from "@patchbay/api";
import type {
  ApiService,
  DaemonSet,
  Deployment,
  KubeEvent,
  KubeNode,
  Lease,
  Pod,
  WebhookConfiguration,
} from "@patchbay/api/kubernetes";
import type { Selinux } from "@patchbay/os";
import type { MachineProcesses } from "@patchbay/supervisor";
import type { Observed } from "./finding.ts";

export interface WantedApi {
  readonly groupVersion: string;
  readonly resources: readonly string[];
}

export interface ServedApi extends WantedApi {
  readonly served: Observed<readonly string[]>;
}

/** Results of two dry runs: the first with a valid VM, the second with an invalid VM. */
export interface Trial {
  /** Time of the server's clock during the first dry run, in milliseconds since 1970, rounded down to seconds. */
  readonly serverMs: number;
  /** Times of this computer's clock before and after the first dry run. */
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly hasDefaults: boolean;
  readonly isRefused: boolean;
}

export interface PodTrial {
  /** Reason why the pod did not start, as reported by the runtime; unset if the pod started. */
  readonly problem?: string;
}

export interface CertificateEnd {
  readonly subject: string;
  /** Expiry in milliseconds since 1970. */
  readonly endsMs: number;
}

export interface Facts {
  /** Time of this computer's clock when the leases were read, in milliseconds since 1970. */
  readonly nowMs: number;
  readonly serverVersion: Observed<string>;
  readonly apis: readonly ServedApi[];
  readonly trial: Observed<Trial>;
  readonly apiServices: Observed<readonly ApiService[]>;
  readonly webhooks: Observed<readonly WebhookConfiguration[]>;
  readonly certificates: readonly CertificateEnd[];
  readonly deployments: Observed<readonly Deployment[]>;
  readonly daemonSets: Observed<readonly DaemonSet[]>;
  readonly processes?: Observed<MachineProcesses>;
  /** Result of starting a test pod; set only on a running standalone machine. */
  readonly podTrial?: Observed<PodTrial>;
  /** SELinux state of this computer if it is the standalone machine; unset on a cluster. */
  readonly selinux?: Observed<Selinux>;
  /** Lease of virt-controller; undefined if there has never been a leader. */
  readonly leader: Observed<Lease | undefined>;
  readonly nodes: Observed<readonly KubeNode[]>;
  readonly nodeLeases: Observed<readonly Lease[]>;
  readonly useEmulation: boolean;
  /** Whether feature gate VhostUserDataplane is on. If so, nodes must offer the vhost-user sockets of all VMs to a dataplane. */
  readonly offersDataplane: boolean;
  /** Namespaces without a ResourceQuota in which a role binding grants the ClusterRole admin or edit. */
  readonly unlimitedTenants: Observed<readonly string[]>;
  readonly networks: Observed<readonly NetworkAttachmentDefinition[]>;
  readonly networkEvents: Observed<readonly KubeEvent[]>;
  readonly vmis: Observed<readonly VirtualMachineInstance[]>;
  readonly pods: Observed<readonly Pod[]>;
}

/** Returns whether net-agent is installed without Patchbay's other services, as in a cluster with KubeVirt. */
export function isNetAgentAlone({
  daemonSets,
  deployments,
  processes,
}: Pick<Facts, "daemonSets" | "deployments" | "processes">): boolean {
  if (processes !== undefined || "failure" in daemonSets || "failure" in deployments) return false;
  const isNetAgent = ({ metadata }: DaemonSet) => metadata.name === "net-agent";
  return (
    deployments.value.length === 0 &&
    daemonSets.value.length > 0 &&
    daemonSets.value.every(isNetAgent)
  );
}

/** Returns how far the server's clock is ahead of this computer's, at least. A slow response is no difference. */
export function computeSkewMs({ serverMs, sentMs, receivedMs }: Trial): number {
  return serverMs > receivedMs ? serverMs - receivedMs : Math.min(0, serverMs - sentMs);
}

/** Returns the time of the server's clock, or of this computer's clock if the server's time is unknown. */
export function serverNowMs({ trial, nowMs }: Pick<Facts, "trial" | "nowMs">): number {
  return "value" in trial ? nowMs + computeSkewMs(trial.value) : nowMs;
}
