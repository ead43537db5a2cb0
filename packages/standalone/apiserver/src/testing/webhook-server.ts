// SPDX-License-Identifier: Apache-2.0
// Admission webhooks over in-memory HTTP.
import { makeWebhookAdmission } from "../admission/webhook/webhook-admission.ts";
import type { Mutation } from "../admission/admission.ts";
import { defineKind } from "../kinds/kind.ts";
import { Registry } from "../kinds/registry.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { openStore } from "../storage/sqlite-store.ts";
import { MemoryConnections, type ConnectTarget, makeBackendServer } from "./memory-network.ts";

const MAPS = defineKind({ group: "", version: "v1", resource: "configmaps", kind: "ConfigMap" });
export const GROUP = "admissionregistration.k8s.io";

/** Builds a request that creates ConfigMap `m`. */
export function admissionRequest(change: Partial<Mutation> = {}): Mutation {
  return {
    kind: MAPS,
    subresource: "",
    operation: "CREATE",
    namespace: "ns",
    name: "m",
    object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "m", namespace: "ns" } },
    oldObject: undefined,
    options: { kind: "CreateOptions" },
    user: { name: "eve", groups: ["g"] },
    dryRun: false,
    warnings: [],
    ...change,
  };
}

/** Builds a webhook for ConfigMaps at host `name`. */
export function hook(name: string, change: Fields = {}): Fields {
  return {
    name,
    clientConfig: { url: `https://${name}/path` },
    rules: [{ operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] }],
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    ...change,
  };
}

interface Review {
  readonly request: { readonly uid: string; readonly [name: string]: unknown };
}

/** Creates a webhook that responds with `response` and the uid of the request. */
export function makeWebhookServer(response: Fields | ((review: Review) => Fields)) {
  return makeBackendServer((_request, sent, body) => {
    const review = JSON.parse(body) as Review;
    const responseFields = typeof response === "function" ? response(review) : response;
    const answer = { uid: review.request.uid, allowed: true, ...responseFields };
    sent.end(
      JSON.stringify({
        apiVersion: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response: answer,
      }),
    );
  });
}

/** Builds the part of a response that has a patch. */
export function patchOf(...operations: readonly Fields[]): Fields {
  return {
    patchType: "JSONPatch",
    patch: Buffer.from(JSON.stringify(operations)).toString("base64"),
  };
}

/** Builds the part of a response that adds a label. */
export const label = (name: string): Fields =>
  patchOf({ op: "add", path: "/metadata/labels", value: { [name]: "1" } });

/** Creates admission with one webhook configuration of each kind. */
export async function makeAdmission(
  targets: Readonly<Record<string, ConnectTarget>>,
  configurations: {
    readonly mutating?: readonly Fields[];
    readonly validating?: readonly Fields[];
  },
) {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  const warned: string[] = [];
  const put = (kind: string, resource: string, webhooks: readonly Fields[]): KubeObject => {
    const object = { apiVersion: `${GROUP}/v1`, kind, metadata: { name: "c" }, webhooks };
    void store.write((transaction) =>
      transaction.put({ bucket: `${GROUP}/${resource}`, namespace: "", name: "c" }, object),
    );
    return object;
  };
  put(
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    configurations.mutating ?? [],
  );
  put(
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    configurations.validating ?? [],
  );
  await store.write(() => undefined);
  const logger = {
    warn: (message: string, fields: object) => warned.push(`${message} ${JSON.stringify(fields)}`),
  };
  const connections = new MemoryConnections(targets);
  const admission = makeWebhookAdmission({
    store,
    registry: new Registry(store),
    connections: connections.asConnections,
    uid: () => "uid-1",
    logger: logger as never,
  });
  return { admission, connections, warned, store };
}

/** Returns the object as it is, without completing it. */
export const same = (object: KubeObject): KubeObject => object;
