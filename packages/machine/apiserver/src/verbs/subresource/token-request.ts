// SPDX-License-Identifier: Apache-2.0
// POST serviceaccounts/token: a token that ends. Source: Kubernetes TokenRequest.
import { type AccountTokens, type BoundObject, ISSUER } from "../../auth/tokens/account-tokens.ts";
import { StatusError, badRequest, invalid, notFound } from "../../meta/status.ts";
import { type Kind, defineKind } from "../../kinds/kind.ts";
import { invalidValue } from "../../meta/causes.ts";
import { fieldsOf, isFields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { admitBody } from "./admit-body.ts";
import { type Call, type Reply, aboutOf, addressOf } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { readObjectOf } from "../options/field-validation.ts";

/** What a write is given, and who signs. */
export type TokenRequestDeps = Pick<VerbDeps, "admission" | "store" | "clock" | "fairQueue"> & {
  readonly accountTokens: AccountTokens;
};

/** The body; it is never stored. */
const TOKEN_REQUEST: Kind = defineKind({
  group: "authentication.k8s.io",
  version: "v1",
  resource: "tokenrequests",
  kind: "TokenRequest",
});

const SECONDS_DEFAULT = 3600;
const SECONDS_MIN = 600;
const SECONDS_MAX = 2 ** 32;

function secondsOf(request: KubeObject): number {
  const seconds = valueAt(request, "spec", "expirationSeconds") ?? SECONDS_DEFAULT;
  const fault =
    Number(seconds) < SECONDS_MIN
      ? "may not specify a duration less than 10 minutes"
      : Number(seconds) > SECONDS_MAX
        ? "may not specify a duration larger than 2^32 seconds"
        : undefined;
  if (fault !== undefined) {
    const cause = invalidValue("spec.expirationSeconds", seconds, fault);
    throw invalid(aboutOf(TOKEN_REQUEST), "", [cause]);
  }
  return Number(seconds);
}

/** Refuses a reference to an object that was made anew under the same name. */
function checkUid(reference: unknown, kind: string, uid: string): void {
  const wanted = textAt(reference, "uid");
  if (wanted !== "" && wanted !== uid) {
    const name = textAt(reference, "name");
    throw new StatusError({
      code: 409,
      reason: "Conflict",
      message: `Operation cannot be fulfilled on ${kind} "${name}": the UID in the bound object reference (${wanted}) does not match the UID in record. The object might have been deleted and then recreated`,
      details: { name, kind },
    });
  }
}

/** A pod's token is one of the account that the pod runs as. */
function checkAccount(account: string, pod: KubeObject): void {
  if (textAt(pod, "spec", "serviceAccountName") !== account) {
    throw badRequest(
      `cannot bind token for serviceaccount "${account}" to pod running with different serviceaccount name.`,
    );
  }
}

function kindOf(reference: unknown): BoundObject["kind"] {
  const kind = textAt(reference, "kind");
  const apiVersion = textAt(reference, "apiVersion");
  if ((kind === "Pod" || kind === "Secret") && apiVersion === "v1") {
    return kind;
  }
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  throw badRequest(`cannot bind token to object of type ${group}/${version}, Kind=${kind}`);
}

function findBound(call: Call, deps: TokenRequestDeps, reference: unknown): BoundObject {
  const kind = kindOf(reference);
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

/** Gives out a token. Throws StatusErrors 400, 404, 409 and 422. */
export async function requestToken(call: Call, deps: TokenRequestDeps): Promise<Reply> {
  const given = await readObjectOf({ ...call, kind: TOKEN_REQUEST }, deps);
  const account = deps.store.find(addressOf(call))?.view();
  if (account === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  const request = await admitBody(call, deps, { kind: TOKEN_REQUEST, body: given });
  const now = deps.clock.now();
  const expiresInSeconds = secondsOf(request);
  const asked = listOf(valueAt(request, "spec", "audiences")).map(String);
  const audiences = asked.length === 0 ? [ISSUER] : asked;
  const reference = valueAt(request, "spec", "boundObjectRef");
  const bound = isFields(reference) ? findBound(call, deps, reference) : undefined;
  const token = await deps.accountTokens.issue({ account, audiences, expiresInSeconds, bound });
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
        ...fieldsOf(request["spec"]),
        audiences,
        expirationSeconds: expiresInSeconds,
        boundObjectRef: isFields(reference) ? reference : null,
      },
      status: { token, expirationTimestamp: rfc3339(now + expiresInSeconds * 1000) },
    },
  };
}
