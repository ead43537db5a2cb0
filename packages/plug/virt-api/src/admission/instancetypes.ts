// SPDX-License-Identifier: Apache-2.0
// Whether instancetypes and preferences may be stored; and why objects of other kinds may not.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  DATA_VOLUMES,
  INSTANCETYPES,
  instancetypeCauses,
  PREFERENCES,
  preferenceCauses,
  preferenceWarnings,
  refusalOf,
  type InstancetypeSpec,
  type PreferenceSpec,
} from "@patchbay/api";
import { judgeDataVolume } from "./data-volumes.ts";
import { fieldsOf, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";

function judgeInstancetype(spec: unknown): Verdict {
  // The schema has spoken.
  return toVerdict(instancetypeCauses(spec as InstancetypeSpec));
}

function judgePreference(given: unknown): Verdict {
  // The schema has spoken.
  const spec = given as PreferenceSpec;
  return toVerdict(preferenceCauses(spec), preferenceWarnings(spec));
}

const JUDGES: Readonly<Record<string, (spec: unknown) => Verdict>> = {
  [INSTANCETYPES.kind]: judgeInstancetype,
  [CLUSTER_INSTANCETYPES.kind]: judgeInstancetype,
  [PREFERENCES.kind]: judgePreference,
  [CLUSTER_PREFERENCES.kind]: judgePreference,
};

/** The verdict on an instancetype, a preference, a DataVolume, or an object of a kind that is refused; undefined for others. */
export function judgeByKind(request: AdmissionRequest): Verdict | undefined {
  const { kind, object } = request;
  if (kind === DATA_VOLUMES.kind) return judgeDataVolume(request);
  const message = refusalOf(kind);
  if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  return Object.hasOwn(JUDGES, kind) ? JUDGES[kind]?.(fieldsOf(object)["spec"]) : undefined;
}
