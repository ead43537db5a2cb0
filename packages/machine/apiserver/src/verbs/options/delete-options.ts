// SPDX-License-Identifier: Apache-2.0
// How is something to be deleted? Source: metav1.DeleteOptions.
import { parseObject } from "../../http/body.ts";
import { type Cause, badRequest } from "../../meta/status.ts";
import { invalidValue, unsupportedValue } from "../../meta/causes.ts";
import { cannotUnmarshal } from "../../meta/decode-meta.ts";
import { type Fields, isFields, textAt } from "../../objects/json.ts";
import type { Call } from "../call.ts";
import { dryRunCauses, refuseOptions } from "./write-options.ts";

const POLICIES: readonly string[] = ["Foreground", "Background", "Orphan"];

/** How to delete. */
export interface DeleteOptions {
  /** Never negative. */
  readonly graceSeconds: number | undefined;
  /** Uid that the object must have; empty: any. */
  readonly uid: string;
  /** State that the object must be in; empty: any. */
  readonly resourceVersion: string;
  /** Empty: what the object's finalizers say already. */
  readonly propagationPolicy: string;
  /** The older way to say what becomes of dependents. */
  readonly orphanDependents?: boolean;
  readonly dryRun: boolean;
}

const FIELDS: Readonly<Record<string, { type: string; fits: (value: unknown) => boolean }>> = {
  kind: { type: "string", fits: (value) => typeof value === "string" },
  gracePeriodSeconds: { type: "int64", fits: Number.isInteger },
  preconditions: { type: "v1.Preconditions", fits: isFields },
  orphanDependents: { type: "bool", fits: (value) => typeof value === "boolean" },
  propagationPolicy: {
    type: "v1.DeletionPropagation",
    fits: (value) => typeof value === "string",
  },
  dryRun: {
    type: "[]string",
    fits: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  },
};

function checkTypes(given: Fields): void {
  for (const [field, { type, fits }] of Object.entries(FIELDS)) {
    const value = given[field];
    if (value !== undefined && value !== null && !fits(value)) {
      throw cannotUnmarshal(value, `DeleteOptions.${field}`, type);
    }
  }
  const kind = given["kind"] ?? "";
  if (kind !== "" && kind !== "DeleteOptions") {
    throw badRequest("decoded object cannot be converted to DeleteOptions");
  }
}

function secondsIn(text: string): number {
  if (!/^-?\d+$/.test(text)) {
    throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  }
  return Number(text);
}

/** The options of a query, in the form of a body. */
function fromQuery(query: URLSearchParams): Fields {
  const grace = query.get("gracePeriodSeconds");
  const orphan = query.get("orphanDependents");
  const policy = query.get("propagationPolicy");
  return {
    ...(grace === null ? {} : { gracePeriodSeconds: secondsIn(grace) }),
    ...(orphan === null ? {} : { orphanDependents: !/^(false|0)$/i.test(orphan) }),
    ...(policy === null ? {} : { propagationPolicy: policy }),
  };
}

function causesOf(given: Fields, dryRun: readonly string[]): Cause[] {
  const policy = given["propagationPolicy"] ?? undefined;
  const both = policy !== undefined && (given["orphanDependents"] ?? undefined) !== undefined;
  const why = "orphanDependents and deletionPropagation cannot be both set";
  return [
    ...(both ? [invalidValue("propagationPolicy", policy, why)] : []),
    ...(POLICIES.some((known) => known === policy) || policy === undefined
      ? []
      : [unsupportedValue("propagationPolicy", policy, [...POLICIES, "nil"])]),
    ...dryRunCauses(dryRun),
  ];
}

function graceIn(given: Fields): number | undefined {
  const grace = given["gracePeriodSeconds"];
  if (typeof grace !== "number") {
    return undefined;
  }
  return grace < 0 ? 1 : grace;
}

/**
 * The options in the body; in the query where there is no body. A dry run may be asked for in both.
 * Throws StatusErrors 400 and 422.
 */
export function deleteOptionsOf(call: Call): DeleteOptions {
  const given = call.body.text === "" ? fromQuery(call.query) : parseObject(call.body);
  checkTypes(given);
  // Its type was checked above.
  const inBody = (given["dryRun"] ?? []) as readonly string[];
  const dryRun = [...inBody, ...call.query.getAll("dryRun")];
  refuseOptions("DeleteOptions", causesOf(given, dryRun));
  const orphan = given["orphanDependents"];
  return {
    graceSeconds: graceIn(given),
    uid: textAt(given, "preconditions", "uid"),
    resourceVersion: textAt(given, "preconditions", "resourceVersion"),
    propagationPolicy: textAt(given, "propagationPolicy"),
    ...(typeof orphan === "boolean" ? { orphanDependents: orphan } : {}),
    dryRun: dryRun.length > 0,
  };
}

/** The options as webhooks are told them. */
export function deleteOptionsFields(options: DeleteOptions): Fields {
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
