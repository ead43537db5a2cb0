// SPDX-License-Identifier: Apache-2.0
// What the KubeVirt object says of the installation, for clients that wait until it is there. Source: KubeVirt
// pkg/virt-operator/util conditions.go.
import type { ApiService, KubeVirt, KubeVirtStatus } from "@patchbay/api";
import { withTimes, type NewCondition } from "../conditions.ts";

/** What virt-controller knows of the installation, beside that itself runs. */
export interface InstallationFacts {
  readonly kubevirt: KubeVirt;
  /** By which the API server knows virt-api. */
  readonly apiService: ApiService | undefined;
  /** Of the program, for example 0.1.0. */
  readonly version: string;
}

const DEPLOYED = "Deployed";
const ALL_READY = {
  reason: "AllComponentsReady",
  message: "virt-api answers and virt-controller runs; the agents of the nodes are not checked",
};

/** Why virt-api does not answer, in the API server's words; undefined: it does. */
function troubleOf(apiService: ApiService | undefined): string | undefined {
  if (apiService === undefined) return "virt-api has no APIService";
  const told = apiService.status?.conditions?.find(({ type }) => type === "Available");
  return told?.status === "True" ? undefined : (told?.message ?? "it has not been asked yet");
}

/** Whether all is there that the installation brings; the APIService comes last. */
function createdOf(apiService: ApiService | undefined): NewCondition {
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

function conditionsOf(trouble: string | undefined, wasDeployed: boolean): readonly NewCondition[] {
  if (trouble === undefined) {
    return [
      { type: "Available", status: "True", ...ALL_READY },
      { type: "Progressing", status: "False", ...ALL_READY },
      { type: "Degraded", status: "False", ...ALL_READY },
    ];
  }
  const why = {
    reason: wasDeployed ? "VirtApiUnavailable" : "DeploymentInProgress",
    message: `virt-api does not answer: ${trouble}`,
  };
  return [
    { type: "Available", status: "False", ...why },
    { type: "Progressing", status: wasDeployed ? "False" : "True", ...why },
    { type: "Degraded", status: wasDeployed ? "True" : "False", ...why },
  ];
}

/** virt-controller's part of the status; `now` is RFC 3339. */
export function installationStatus(facts: InstallationFacts, now: string): KubeVirtStatus {
  const { kubevirt, apiService, version } = facts;
  const trouble = troubleOf(apiService);
  const wasDeployed = kubevirt.status?.phase === DEPLOYED;
  const named = `v${version}`;
  return {
    phase: trouble === undefined || wasDeployed ? DEPLOYED : "Deploying",
    conditions: withTimes(
      [...conditionsOf(trouble, wasDeployed), createdOf(apiService)],
      kubevirt.status?.conditions,
      now,
    ),
    ...(kubevirt.metadata.generation !== undefined && {
      observedGeneration: kubevirt.metadata.generation,
    }),
    observedKubeVirtVersion: named,
    operatorVersion: named,
    targetKubeVirtVersion: named,
  };
}
