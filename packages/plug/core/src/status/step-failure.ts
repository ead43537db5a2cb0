// SPDX-License-Identifier: Apache-2.0
// What is said of a step that the API server did not let virt-controller do.
import { isAppError, messageOf } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/catalogue.ts";
import type { MigrationAction } from "../migration/control/actions.ts";
import type { VmAction } from "../plan/vm/vm.ts";
import type { VmiAction } from "../plan/vm/vmi.ts";

/** A step of a plan. */
export type StepKind = VmAction["kind"] | VmiAction["kind"] | MigrationAction["kind"];

/** A step that failed, in words. */
export interface StepFailure {
  readonly step: StepKind;
  /** Of the error. */
  readonly code?: ErrorCode;
  readonly message: string;
}

/** Failures that have a word of their own, whatever the step. Source: KubeVirt, whose word this is. */
const OF_CODE: Readonly<Partial<Record<ErrorCode, string>>> = {
  CONTROLLER_NO_DATA_VOLUMES: "FailedDataVolumeNotFound",
};

/** The reason in conditions and events. */
function reasonOf({ step, code }: StepFailure): string {
  return (code === undefined ? undefined : OF_CODE[code]) ?? REASONS[step];
}

/** Of a step that the server refused. Source: KubeVirt, whose words these are. */
const REASONS: Readonly<Record<StepKind, string>> = {
  keepParts: "FailedCreate",
  createDataVolume: "FailedCreate",
  createVmi: "FailedCreate",
  createClaim: "FailedCreate",
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
  tellMigration: "FailedUpdate",
  labelMigration: "FailedUpdate",
  deleteLauncher: "FailedDelete",
  releaseMigration: "FailedUpdate",
  deleteMigration: "FailedDelete",
};

/** Most characters of a message. A condition may be longer; nobody reads more. */
const MESSAGE_MAX = 2000;

/** What failed in one line, with all causes that the server named. */
export function sayError(error: unknown): string {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error];
  const lines = errors.flatMap((each) => {
    const message = messageOf(each);
    const causes = isAppError(each) ? each.details["causes"] : undefined;
    const unsaid = String(causes ?? "")
      .split("\n")
      .filter((cause) => cause !== "" && !message.includes(cause));
    return [message, ...unsaid];
  });
  return [...new Set(lines)].join("; ").slice(0, MESSAGE_MAX);
}

/** Several failures as one condition. */
export function sayFailures(
  failures: readonly StepFailure[],
): { readonly reason: string; readonly message: string } | undefined {
  const [first] = failures;
  if (first === undefined) return undefined;
  const message = failures.map((failure) => failure.message).join("; ");
  return { reason: reasonOf(first), message: message.slice(0, MESSAGE_MAX) };
}
