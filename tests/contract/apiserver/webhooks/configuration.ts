// SPDX-License-Identifier: Apache-2.0
// Webhooks of a server under test: configurations and received reviews.
import { expect } from "vitest";
import type { Backend, ReviewRequest } from "../backend.ts";
import { startWebhook } from "../backend.ts";
import type { Answer, Harness } from "../harness.ts";

export const REGISTRATION = "/apis/admissionregistration.k8s.io/v1";
export const MAPS = "/api/v1/namespaces/default/configmaps";

export function aMap(name: string, metadata: Readonly<Record<string, unknown>> = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...metadata }, data: { a: "1" } };
}

export function rulesFor(resources: readonly string[], more: object = {}) {
  const groups = { apiGroups: ["*"], apiVersions: ["*"] };
  return { rules: [{ operations: ["*"], ...groups, resources, ...more }] };
}

/** The URL of a directly called webhook. */
export function byUrl(api: Harness, backend: Backend, path = "/hook") {
  const caBundle = Buffer.from(api.authority.certPem).toString("base64");
  return {
    clientConfig: { url: `https://127.0.0.1:${String(backend.port)}${path}`, caBundle },
  };
}

/** One webhook in its own configuration. */
export interface Configured {
  readonly type: "Mutating" | "Validating";
  readonly name?: string;
  readonly webhook: Readonly<Record<string, unknown>>;
}

/** Writes a configuration; returns any response. */
export function tryConfigure(api: Harness, given: Configured): Promise<Answer> {
  const { type, name = "hook", webhook } = given;
  const kind = `${type}WebhookConfiguration`;
  const full = {
    name: `${name}.test.io`,
    ...rulesFor(["configmaps"]),
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    ...webhook,
  };
  return api.post(`${REGISTRATION}/${kind.toLowerCase()}s`, {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind,
    metadata: { name },
    webhooks: [full],
  });
}

/** Writes a configuration and expects success. */
export async function configure(api: Harness, given: Configured): Promise<void> {
  const { code, text } = await tryConfigure(api, given);
  expect([code, text]).toEqual([201, expect.anything()]);
}

/** A webhook that allows everything and records reviews. */
export interface Recorder extends AsyncDisposable {
  readonly backend: Backend;
  readonly seen: ReviewRequest[];
}

/** Starts a webhook that allows everything, with the rules of `webhook`. */
export async function startRecorder(api: Harness, given: Configured): Promise<Recorder> {
  const observed: ReviewRequest[] = [];
  const backend = await startWebhook(api.authority, (request) => {
    observed.push(request);
    return { allowed: true };
  });
  await configure(api, { ...given, webhook: { ...byUrl(api, backend), ...given.webhook } });
  return { backend, seen: observed, [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose]() };
}

/** Deletes all configurations and the tests' ConfigMaps. */
export async function forgetWebhooks(api: Harness): Promise<void> {
  for (const type of ["mutating", "validating"]) {
    await api.delete(`${REGISTRATION}/${type}webhookconfigurations`);
  }
  await api.delete(`${MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt`);
}
