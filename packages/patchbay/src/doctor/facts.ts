// SPDX-License-Identifier: Apache-2.0
// What the doctor knows of an installation when it judges it.
import type {
  ApiService,
  DaemonSet,
  Deployment,
  KubeEvent,
  KubeNode,
  Lease,
  NetworkAttachmentDefinition,
  Pod,
  VirtualMachineInstance,
  WebhookConfiguration,
} from "@patchbay/api";
import type { Selinux } from "@patchbay/os";
import type { MachineProcesses } from "@patchbay/standalone";
import type { Asked } from "./finding.ts";

/** A group and version, and what of it must be served. */
export interface WantedApi {
  /** For example `kubevirt.io/v1`. */
  readonly groupVersion: string;
  /** Plural names. */
  readonly resources: readonly string[];
}

/** The same, and the plural names that the server says it has of it. */
export interface ServedApi extends WantedApi {
  readonly served: Asked<readonly string[]>;
}

/** What came of two VMs that were sent as dry runs: one that is right, and one that must be refused. */
export interface Trial {
  /** The server's clock, milliseconds since 1970; whole seconds. */
  readonly serverMs: number;
  /** Whether virt-api filled in what was left out. */
  readonly isFilledIn: boolean;
  /** Whether virt-api refused the second. */
  readonly isRefused: boolean;
}

/** What came of a pod that was created. */
export interface PodTrial {
  /** Why it did not start, as the runtime reports it. Unset if it started. */
  readonly problem?: string;
}

/** A certificate of a chain or of an authority. */
export interface CertificateEnd {
  /** Whose, for example `authority of webhook patchbay`. */
  readonly of: string;
  /** Milliseconds since 1970. */
  readonly endsMs: number;
}

/** Everything that is looked at. */
export interface Facts {
  /** This computer's clock, milliseconds since 1970. */
  readonly nowMs: number;
  /** As `/version` says it, for example `v1.30.0`. */
  readonly serverVersion: Asked<string>;
  readonly apis: readonly ServedApi[];
  readonly trial: Asked<Trial>;
  readonly apiServices: Asked<readonly ApiService[]>;
  readonly webhooks: Asked<readonly WebhookConfiguration[]>;
  readonly certificates: readonly CertificateEnd[];
  readonly deployments: Asked<readonly Deployment[]>;
  readonly daemonSets: Asked<readonly DaemonSet[]>;
  /** Absent on a cluster. */
  readonly processes?: Asked<MachineProcesses>;
  /** Of a standalone machine that runs. Unset on a cluster. */
  readonly podTrial?: Asked<PodTrial>;
  /** Of this computer, where it is the machine; absent on a cluster. */
  readonly selinux?: Asked<Selinux>;
  /** Of virt-controllers; undefined: nobody has ever led. */
  readonly leader: Asked<Lease | undefined>;
  readonly nodes: Asked<readonly KubeNode[]>;
  readonly nodeLeases: Asked<readonly Lease[]>;
  readonly useEmulation: boolean;
  /** Whether nodes are to offer the sockets of all VMs to a dataplane. */
  readonly offersDataplane: boolean;
  readonly networks: Asked<readonly NetworkAttachmentDefinition[]>;
  /** Events of the networks. */
  readonly networkEvents: Asked<readonly KubeEvent[]>;
  readonly vmis: Asked<readonly VirtualMachineInstance[]>;
  /** Launchers. */
  readonly pods: Asked<readonly Pod[]>;
}

/** Whether net-agent is installed without Patchbay's other services, as beside KubeVirt. */
export function isNetAgentAlone({
  daemonSets,
  deployments,
  processes,
}: Pick<Facts, "daemonSets" | "deployments" | "processes">): boolean {
  if (processes !== undefined || "unseen" in daemonSets || "unseen" in deployments) return false;
  const isNetAgent = ({ metadata }: DaemonSet) => metadata.name === "net-agent";
  return (
    deployments.seen.length === 0 && daemonSets.seen.length > 0 && daemonSets.seen.every(isNetAgent)
  );
}

/** The server's clock as far as it is known. */
export function serverNowMs({ trial, nowMs }: Pick<Facts, "trial" | "nowMs">): number {
  return "seen" in trial ? trial.seen.serverMs : nowMs;
}
