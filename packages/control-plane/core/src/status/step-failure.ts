// SPDX-License-Identifier: Apache-2.0
import { isAppError, messageOf, type ErrorCode } from "@patchbay/base";

import type { MigrationAction } from "../migration/control/actions.ts";
import type { VmAction } from "../vm/vm.ts";
import type { VmiAction } from "../vm/vmi.ts";

export type StepKind = VmAction["kind"] | VmiAction["kind"] | MigrationAction["kind"];

export interface StepFailure {
  readonly step: StepKind;
  readonly code?: ErrorCode;
  readonly message: string;
}

/** KubeVirt's reasons by error code. A reason for the code takes precedence over the step's reason. */
const REASONS_BY_CODE: Readonly<Partial<Record<ErrorCode, string>>> = {
  CONTROLLER_CLONE_FORBIDDEN: "UnauthorizedDataVolumeCreate",
  CONTROLLER_NO_DATA_SOURCE: "FailedDataVolumeNotFound",
  CONTROLLER_NO_DATA_VOLUMES: "FailedDataVolumeNotFound",
};

function failureReason({ step, code }: StepFailure): string {
  return (code === undefined ? undefined : REASONS_BY_CODE[code]) ?? REASONS_BY_STEP[step];
}

/** KubeVirt's reasons by the step that failed. */
const REASONS_BY_STEP: Readonly<Record<StepKind, string>> = {
  storeRevisions: "FailedCreate",
  createDataVolume: "FailedCreate",
  createVmi: "FailedCreate",
  createClaim: "FailedCreate",
  createIpamClaim: "FailedCreate",
  createPod: "FailedCreate",
  deleteVmi: "FailedDelete",
  deletePod: "FailedDelete",
  patchVmiNics: "HotPlugNetworkInterfaceError",
  patchPodNetworks: "FailedPodPatch",
  patchPodNetworkInfo: "FailedPodPatch",
  patchTemplateNics: "FailedUpdate",
  setMacAddresses: "FailedUpdate",
  labelNode: "FailedUpdate",
  addFinalizer: "FailedUpdate",
  removeFinalizer: "FailedUpdate",
  markMigration: "FailedUpdate",
  createTargetPod: "FailedCreate",
  patchTargetNetworks: "FailedPodPatch",
  patchVmiMigration: "FailedUpdate",
  labelMigration: "FailedUpdate",
  deleteLauncher: "FailedDelete",
  releaseMigration: "FailedUpdate",
  deleteMigration: "FailedDelete",
};

const MAX_MESSAGE_LENGTH = 2000;

export function describeError(error: unknown): string {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error];
  const lines = errors.flatMap((singleError) => {
    const message = messageOf(singleError);
    const causes = isAppError(singleError) ? singleError.details["causes"] : undefined;
    const missingNames = String(causes ?? "")
      .split("\n")
      .filter((cause) => cause !== "" && !message.includes(cause));
    return [message, ...missingNames];
  });
  return [...new Set(lines)].join("; ").slice(0, MAX_MESSAGE_LENGTH);
}

export function describeFailures(
  failures: readonly StepFailure[],
): { readonly reason: string; readonly message: string } | undefined {
  const [firstFailure] = failures;
  if (firstFailure === undefined) return undefined;
  const message = failures.map((failure) => failure.message).join("; ");
  return { reason: failureReason(firstFailure), message: message.slice(0, MAX_MESSAGE_LENGTH) };
}
