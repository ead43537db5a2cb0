// SPDX-License-Identifier: Apache-2.0
// Which pods may ask for a path of the node? Beside the product's those that are as launchers are: what an administrator has
// opened to VMs (hostDisk) is theirs, and whether a path is one of that is looked up when it is mounted.
import { names, type Pod } from "@patchbay/api";
import { problem, type PodProblem } from "./problem.ts";

const WHO = `is for Patchbay's own pods, and type Directory for pods all of whose containers run as user and group ${String(names.LAUNCHER_UID)}`;

/** Whether nothing in the pod runs with more of the node's users and groups than a launcher has. */
function runsAsLaunchers({ spec }: Pod): boolean {
  const { fsGroup, supplementalGroups = [], ...shared } = spec.securityContext ?? {};
  const groups = fsGroup === undefined ? supplementalGroups : [fsGroup, ...supplementalGroups];
  const users = [...(spec.initContainers ?? []), ...spec.containers].flatMap(
    ({ securityContext: own }) => [
      own?.runAsUser ?? shared.runAsUser,
      own?.runAsGroup ?? shared.runAsGroup,
    ],
  );
  return [...users, ...groups].every((id) => id === names.LAUNCHER_UID);
}

/** Why a pod that is not the product's may not have the paths that it names. */
export function hostPathProblems(pod: Pod): readonly PodProblem[] {
  const isLikeLaunchers = runsAsLaunchers(pod);
  return (pod.spec.volumes ?? []).flatMap(({ name, hostPath }) => {
    const isAsked = hostPath !== undefined && !(isLikeLaunchers && hostPath.type === "Directory");
    return problem(isAsked, `spec.volumes[${name}].hostPath`, WHO);
  });
}
