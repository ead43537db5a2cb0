// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import { addCommonFlags, type CommonFlags } from "@patchbay/daemon";
import { Command } from "commander";

/** Command-line flags. `concurrency` is the number of VMs that are reconciled concurrently. */
export interface Flags extends CommonFlags {
  readonly launcherImage: string;
  /** Image of hook sidecars that specify no image. */
  readonly sidecarShimImage: string;
  readonly concurrency: number;
  readonly leaderElect: boolean;
  readonly leaseNamespace: string;
  readonly podNetworkPassesAnyMac: boolean;
  /** NAMESPACE/NAME of OVN-Kubernetes' definition of its default network. */
  readonly ovnDefaultNetwork: string;
}

export function parseFlags(argv: readonly string[]): Flags {
  const command = addCommonFlags(new Command("virt-controller"))
    .description(
      "Creates VMIs for VMs and launcher pods for VMIs, and maintains the pods' networks.",
    )
    .option("--launcher-image <image>", "image of launcher pods", names.LAUNCHER_IMAGE)
    .option(
      "--sidecar-shim-image <image>",
      "image of hooks that name none, which runs their programs",
      names.SIDECAR_SHIM_IMAGE,
    )
    .option("--concurrency <count>", "number of VMs reconciled concurrently", Number, 8)
    .option("--leader-elect", "enable leader election", false)
    .option(
      "--lease-namespace <namespace>",
      "namespace of the leader-election Lease",
      names.SERVICES_NAMESPACE,
    )
    .option(
      "--pod-network-passes-any-mac",
      "the pods' default network passes frames of any MAC, so that VMs on it keep their MAC over restarts",
      false,
    )
    .option(
      "--ovn-default-network <namespace/name>",
      "OVN-Kubernetes' NetworkAttachmentDefinition of its default network, which launchers on a primary network name to request addresses; on OpenShift openshift-ovn-kubernetes/default",
      "ovn-kubernetes/default",
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
