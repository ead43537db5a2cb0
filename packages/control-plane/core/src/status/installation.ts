// SPDX-License-Identifier: Apache-2.0
// Status of the KubeVirt object after the installation. Source: KubeVirt pkg/virt-operator/util/conditions.go.
import type { KubeVirt, KubeVirtStatus } from "@patchbay/api";
import type { ApiService } from "@patchbay/api/kubernetes";
import { withTransitionTimes, type NewCondition } from "./conditions.ts";

export interface InstallationFacts {
  readonly kubevirt: KubeVirt;
  readonly apiService: ApiService | undefined;
  readonly version: string;
}

const DEPLOYED_PHASE = "Deployed";
const ALL_COMPONENTS_READY = {
  reason: "AllComponentsReady",
  message: "virt-api answers and virt-controller runs; the agents of the nodes are not checked",
};

function findVirtApiProblem(apiService: ApiService | undefined): string | undefined {
  if (apiService === undefined) return "virt-api has no APIService";
  const available = apiService.status?.conditions?.find(({ type }) => type === "Available");
  return available?.status === "True"
    ? undefined
    : (available?.message ?? "it was not queried yet");
}

/** Builds the condition Created, which is True if the APIService exists. The installation creates the APIService last. */
function buildCreatedCondition(apiService: ApiService | undefined): NewCondition {
  return apiService === undefined
    ? {
        type: "Created",
        status: "False",
        reason: "DeploymentInProgress",
        message: "virt-api has no APIService",
      }
    : {
        type: "Created",
        status: "True",
        reason: "AllResourcesCreated",
        message: "All resources were created.",
      };
}

function listConditions(
  problem: string | undefined,
  wasDeployed: boolean,
): readonly NewCondition[] {
  if (problem === undefined) {
    return [
      { type: "Available", status: "True", ...ALL_COMPONENTS_READY },
      { type: "Progressing", status: "False", ...ALL_COMPONENTS_READY },
      { type: "Degraded", status: "False", ...ALL_COMPONENTS_READY },
    ];
  }
  const why = {
    reason: wasDeployed ? "VirtApiUnavailable" : "DeploymentInProgress",
    message: `virt-api does not answer: ${problem}`,
  };
  return [
    { type: "Available", status: "False", ...why },
    { type: "Progressing", status: wasDeployed ? "False" : "True", ...why },
    { type: "Degraded", status: wasDeployed ? "True" : "False", ...why },
  ];
}

export function installationStatus(facts: InstallationFacts, now: string): KubeVirtStatus {
  const { kubevirt, apiService, version } = facts;
  const problem = findVirtApiProblem(apiService);
  const wasDeployed = kubevirt.status?.phase === DEPLOYED_PHASE;
  const versionTag = `v${version}`;
  return {
    phase: problem === undefined || wasDeployed ? DEPLOYED_PHASE : "Deploying",
    conditions: withTransitionTimes(
      [...listConditions(problem, wasDeployed), buildCreatedCondition(apiService)],
      kubevirt.status?.conditions,
      now,
    ),
    ...(kubevirt.metadata.generation !== undefined && {
      observedGeneration: kubevirt.metadata.generation,
    }),
    observedKubeVirtVersion: versionTag,
    operatorVersion: versionTag,
    targetKubeVirtVersion: versionTag,
  };
}
