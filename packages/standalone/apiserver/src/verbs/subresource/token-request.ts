// SPDX-License-Identifier: Apache-2.0
// Handles POST of serviceaccounts/token, which creates a token. Source: Kubernetes TokenRequest.
import { type AccountTokens, type BoundObject, ISSUER } from "../../auth/tokens/account-tokens.ts";
import { StatusError, badRequest, invalid, notFound } from "../../meta/status.ts";
import { type Kind, defineKind } from "../../kinds/kind.ts";
import { invalidValue } from "../../meta/causes.ts";
import { asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { type Call, type Reply, toResourceRef, toAddress } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { readRequestObject } from "../options/field-validation.ts";
import { admitBody } from "./admit-body.ts";

export type TokenRequestDeps = Pick<
  VerbDeps,
  "admission" | "store" | "clock" | "fairQueue" | "quotas"
> & {
  readonly accountTokens: AccountTokens;
};

const TOKEN_REQUEST: Kind = defineKind({
  group: "authentication.k8s.io",
  version: "v1",
  resource: "tokenrequests",
  kind: "TokenRequest",
});

const EXPIRATION_DEFAULT_SECONDS = 3600;
const EXPIRATION_MIN_SECONDS = 600;
const EXPIRATION_MAX_SECONDS = 2 ** 32;
/** Maximum lifetime; longer requests are shortened to it. Source: kube-apiserver, `--service-account-max-token-expiration`. */
const LIFETIME_MAX_SECONDS = 365 * 24 * 3600;

/** Returns the token's lifetime in seconds. Shortens it to one year with a warning. Throws a StatusError 422 for an invalid duration. */
function parseExpirationSeconds(request: KubeObject, warnings: string[]): number {
  const seconds = valueAt(request, "spec", "expirationSeconds") ?? EXPIRATION_DEFAULT_SECONDS;
  const fault =
    Number(seconds) < EXPIRATION_MIN_SECONDS
      ? "may not specify a duration less than 10 minutes"
      : Number(seconds) > EXPIRATION_MAX_SECONDS
        ? "may not specify a duration larger than 2^32 seconds"
        : undefined;
  if (fault !== undefined) {
    const cause = invalidValue("spec.expirationSeconds", seconds, fault);
    throw invalid(toResourceRef(TOKEN_REQUEST), "", [cause]);
  }
  if (Number(seconds) <= LIFETIME_MAX_SECONDS) return Number(seconds);
  warnings.push(
    `requested expiration of ${String(Number(seconds))} seconds shortened to ${String(LIFETIME_MAX_SECONDS)} seconds`,
  );
  return LIFETIME_MAX_SECONDS;
}

/** Rejects a reference to an object that was deleted and created again under the same name. */
function checkUid(reference: unknown, kind: string, uid: string): void {
  const expected = textAt(reference, "uid");
  if (expected !== "" && expected !== uid) {
    const name = textAt(reference, "name");
    throw new StatusError({
      code: 409,
      reason: "Conflict",
      message: `Operation cannot be fulfilled on ${kind} "${name}": the UID in the bound object reference (${expected}) does not match the UID in record. The object might have been deleted and then recreated`,
      details: { name, kind },
    });
  }
}

/** Checks that a token bound to a pod is for the pod's service account. */
function checkAccount(account: string, pod: KubeObject): void {
  if (textAt(pod, "spec", "serviceAccountName") !== account) {
    throw badRequest(
      `cannot bind token for serviceaccount "${account}" to pod running with different serviceaccount name.`,
    );
  }
}

function parseBoundKind(reference: unknown): BoundObject["kind"] {
  const kind = textAt(reference, "kind");
  const apiVersion = textAt(reference, "apiVersion");
  if ((kind === "Pod" || kind === "Secret") && apiVersion === "v1") {
    return kind;
  }
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  throw badRequest(`cannot bind token to object of type ${group}/${version}, Kind=${kind}`);
}

function findBoundObject(call: Call, deps: TokenRequestDeps, reference: unknown): BoundObject {
  const kind = parseBoundKind(reference);
  const resource = kind === "Pod" ? "pods" : "secrets";
  const name = textAt(reference, "name");
  const address = { bucket: `/${resource}`, namespace: call.namespace, name };
  const object = deps.store.find(address)?.view();
  if (object === undefined) {
    throw notFound({ group: "", resource, kind }, name);
  }
  if (kind === "Pod") {
    checkAccount(call.name, object);
  }
  const uid = object.metadata.uid ?? "";
  checkUid(reference, kind, uid);
  return { kind, name, uid };
}

export async function requestToken(call: Call, deps: TokenRequestDeps): Promise<Reply> {
  const requestBody = await readRequestObject({ ...call, kind: TOKEN_REQUEST }, deps);
  const account = deps.store.find(toAddress(call))?.view();
  if (account === undefined) {
    throw notFound(toResourceRef(call.kind), call.name);
  }
  const request = await admitBody(call, deps, { kind: TOKEN_REQUEST, body: requestBody });
  const now = deps.clock.now();
  const expiresInSeconds = parseExpirationSeconds(request, call.warnings);
  const requestedAudiences = asList(valueAt(request, "spec", "audiences")).map(String);
  const audiences = requestedAudiences.length === 0 ? [ISSUER] : requestedAudiences;
  const reference = valueAt(request, "spec", "boundObjectRef");
  const boundObject = isFields(reference) ? findBoundObject(call, deps, reference) : undefined;
  const token = await deps.accountTokens.issue({
    account,
    audiences,
    expiresInSeconds,
    boundObject,
  });
  return {
    type: "fields",
    code: 201,
    fields: {
      ...request,
      metadata: {
        name: call.name,
        namespace: call.namespace,
        creationTimestamp: rfc3339(now),
      },
      spec: {
        ...asFields(request["spec"]),
        audiences,
        expirationSeconds: expiresInSeconds,
        boundObjectRef: isFields(reference) ? reference : null,
      },
      status: { token, expirationTimestamp: rfc3339(now + expiresInSeconds * 1000) },
    },
  };
}
