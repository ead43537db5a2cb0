// SPDX-License-Identifier: Apache-2.0
// Options of a deletion. Source: metav1.DeleteOptions.
import { parseObject } from "../../http/body.ts";
import { type Cause, badRequest } from "../../meta/status.ts";
import { invalidValue, unsupportedValue } from "../../meta/causes.ts";
import { cannotUnmarshal } from "../../meta/metadata.ts";
import { type Fields, isFields, textAt } from "../../objects/json.ts";
import type { Call } from "../call.ts";
import { dryRunCauses, rejectInvalidOptions } from "./write-options.ts";

const PROPAGATION_POLICIES: readonly string[] = ["Foreground", "Background", "Orphan"];

export interface DeleteOptions {
  /** Grace period in seconds, 0 or more; undefined if the client does not set it. */
  readonly graceSeconds: number | undefined;
  /** Required UID of the object; empty if the client does not set it. */
  readonly uid: string;
  /** Required resourceVersion of the object; empty if the client does not set it. */
  readonly resourceVersion: string;
  /** If it is empty and `orphanDependents` is unset, the deletion does not change the object's finalizers. */
  readonly propagationPolicy: string;
  /** Deprecated predecessor of propagationPolicy. */
  readonly orphanDependents?: boolean;
  readonly dryRun: boolean;
}

const FIELD_TYPES: Readonly<
  Record<string, { type: string; isValid: (value: unknown) => boolean }>
> = {
  kind: { type: "string", isValid: (value) => typeof value === "string" },
  gracePeriodSeconds: { type: "int64", isValid: Number.isInteger },
  preconditions: { type: "v1.Preconditions", isValid: isFields },
  orphanDependents: { type: "bool", isValid: (value) => typeof value === "boolean" },
  propagationPolicy: {
    type: "v1.DeletionPropagation",
    isValid: (value) => typeof value === "string",
  },
  dryRun: {
    type: "[]string",
    isValid: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  },
};

function checkTypes(options: Fields): void {
  for (const [field, { type, isValid }] of Object.entries(FIELD_TYPES)) {
    const value = options[field];
    if (value !== undefined && value !== null && !isValid(value)) {
      throw cannotUnmarshal(value, `DeleteOptions.${field}`, type);
    }
  }
  const kind = options["kind"] ?? "";
  if (kind !== "" && kind !== "DeleteOptions") {
    throw badRequest("decoded object cannot be converted to DeleteOptions");
  }
}

function parseSeconds(text: string): number {
  if (!/^-?\d+$/.test(text)) {
    throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  }
  return Number(text);
}

function fromQuery(query: URLSearchParams): Fields {
  const grace = query.get("gracePeriodSeconds");
  const orphanDependents = query.get("orphanDependents");
  const policy = query.get("propagationPolicy");
  return {
    ...(grace === null ? {} : { gracePeriodSeconds: parseSeconds(grace) }),
    ...(orphanDependents === null
      ? {}
      : { orphanDependents: !/^(false|0)$/i.test(orphanDependents) }),
    ...(policy === null ? {} : { propagationPolicy: policy }),
  };
}

function optionCauses(options: Fields, dryRun: readonly string[]): Cause[] {
  const policy = options["propagationPolicy"] ?? undefined;
  const setsBoth = policy !== undefined && (options["orphanDependents"] ?? undefined) !== undefined;
  const message = "orphanDependents and deletionPropagation cannot be both set";
  return [
    ...(setsBoth ? [invalidValue("propagationPolicy", policy, message)] : []),
    ...(PROPAGATION_POLICIES.some((knownPolicy) => knownPolicy === policy) || policy === undefined
      ? []
      : [unsupportedValue("propagationPolicy", policy, [...PROPAGATION_POLICIES, "nil"])]),
    ...dryRunCauses(dryRun),
  ];
}

function parseGrace(options: Fields): number | undefined {
  const grace = options["gracePeriodSeconds"];
  if (typeof grace !== "number") {
    return undefined;
  }
  return grace < 0 ? 1 : grace;
}

/** Reads the options from the body, or from the query if the body is empty. @throws StatusError 400 or 422 */
export function parseDeleteOptions(call: Call): DeleteOptions {
  const options = call.body.text === "" ? fromQuery(call.query) : parseObject(call.body);
  checkTypes(options);
  const bodyDryRun = (options["dryRun"] ?? []) as readonly string[];
  const dryRun = [...bodyDryRun, ...call.query.getAll("dryRun")];
  rejectInvalidOptions("DeleteOptions", optionCauses(options, dryRun));
  const orphanDependents = options["orphanDependents"];
  return {
    graceSeconds: parseGrace(options),
    uid: textAt(options, "preconditions", "uid"),
    resourceVersion: textAt(options, "preconditions", "resourceVersion"),
    propagationPolicy: textAt(options, "propagationPolicy"),
    ...(typeof orphanDependents === "boolean" ? { orphanDependents } : {}),
    dryRun: dryRun.length > 0,
  };
}

export function printDeleteOptions(options: DeleteOptions): Fields {
  const { uid, resourceVersion, propagationPolicy, orphanDependents, graceSeconds } = options;
  const preconditions = {
    ...(uid === "" ? {} : { uid }),
    ...(resourceVersion === "" ? {} : { resourceVersion }),
  };
  return {
    kind: "DeleteOptions",
    apiVersion: "meta.k8s.io/v1",
    ...(propagationPolicy === "" ? {} : { propagationPolicy }),
    ...(orphanDependents === undefined ? {} : { orphanDependents }),
    ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds }),
    ...(uid === "" && resourceVersion === "" ? {} : { preconditions }),
    ...(options.dryRun ? { dryRun: ["All"] } : {}),
  };
}
