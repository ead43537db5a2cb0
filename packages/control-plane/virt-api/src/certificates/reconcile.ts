// SPDX-License-Identifier: Apache-2.0
// Reconciles virt-api's certificates. Replicas need no lock, because a write fails if another replica has changed the Secret.
import {
  API_SERVICES,
  MUTATING_WEBHOOKS,
  names,
  SECRETS,
  VALIDATING_WEBHOOKS,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { ApiService, Secret, WebhookConfiguration } from "@patchbay/api/kubernetes";
import { AppError, type Clock, type Logger } from "@patchbay/base";
import { HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { after, type Next } from "@patchbay/kube";
import {
  createAuthority,
  issueCertificate,
  loadAuthority,
  type IssuedCertificate,
} from "@patchbay/pki";
import type { Cache, Store } from "@patchbay/core/interfaces";
import { VERSIONS, type Version } from "../routes/table.ts";
import {
  findHandlersEnd,
  HANDLERS_KEY,
  listValidAuthorities,
  printContents,
  readCertificates,
  SECRET_KEY,
  SERVER_NAME,
  type Contents,
  type ValidCertificates,
} from "./secret.ts";
import {
  planCertificates,
  SERVING_VALID_DAYS,
  type CertificateAction,
  type CertificateFacts,
  type Target,
} from "./plan.ts";

/** Common name of every CA. A new CA has the same name and another key. */
const AUTHORITY_NAME = "patchbay-virt-api";
/** Subject alternative names by common name. */
const SERVER_NAMES: Readonly<Record<string, readonly string[]>> = {
  [SERVER_NAME]: [SERVER_NAME, `${SERVER_NAME}.cluster.local`, "localhost"],
};
const WEBHOOKS = { name: names.WEBHOOKS_NAME } as const;

export function apiServiceKey(version: Version): { readonly name: string } {
  return { name: `${version}.${names.SUBRESOURCES_GROUP}` };
}

function isVersion(target: Target): target is Version {
  return VERSIONS.some((version) => version === target);
}

interface CertificateCaches {
  readonly secrets: Cache<Secret>;
  /** Cache of the Secret with the certificate that all virt-handlers share. Older installations lack this Secret. */
  readonly handlers: Cache<Secret>;
  readonly apiServices: Readonly<Record<Version, Cache<ApiService>>>;
  readonly mutating: Cache<WebhookConfiguration>;
  readonly validating: Cache<WebhookConfiguration>;
}

interface ReconcileDeps extends CertificateCaches {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Observation {
  readonly secret: Secret;
  readonly handlers: Secret | undefined;
  readonly certificates: ValidCertificates;
  readonly caBundle: string;
}

function findBundles(target: Target, caches: CertificateCaches): readonly unknown[] | undefined {
  if (isVersion(target)) {
    const apiService = caches.apiServices[target].find(apiServiceKey(target));
    return apiService === undefined ? undefined : [apiService.spec.caBundle];
  }
  const webhooks = caches[target].find(WEBHOOKS)?.webhooks;
  return webhooks?.map(({ clientConfig }) => clientConfig.caBundle);
}

function observe(deps: ReconcileDeps): Observation {
  const secret = deps.secrets.find(SECRET_KEY);
  if (secret === undefined) {
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "secret", object });
  }
  const certificates = readCertificates(secret);
  const handlers = deps.handlers.find(HANDLERS_KEY);
  return {
    secret,
    handlers,
    certificates,
    caBundle: Buffer.from(certificates.contents.bundlePem).toString("base64"),
  };
}

function collectHandlerFacts({
  handlers,
  certificates,
}: Observation): Pick<CertificateFacts, "handlers"> {
  if (handlers === undefined) return {};
  const endMs = findHandlersEnd(handlers, certificates);
  return { handlers: endMs === undefined ? {} : { endMs } };
}

function collectFacts(observation: Observation, deps: ReconcileDeps): CertificateFacts {
  const { certificates, caBundle } = observation;
  const { authority, serving } = certificates;
  const targets = ([...VERSIONS, "mutating", "validating"] as const).flatMap((target) => {
    const bundles = findBundles(target, deps);
    if (bundles === undefined) return [];
    return [{ target, isCurrent: bundles.every((bundle) => bundle === caBundle) }];
  });
  return {
    nowMs: deps.clock.now(),
    ...(authority !== undefined && { authorityEndMs: authority.endMs }),
    ...(serving !== undefined && { servingEndMs: serving.endMs }),
    ...collectHandlerFacts(observation),
    targets,
  };
}

async function writeData(
  { metadata }: Secret,
  data: Readonly<Record<string, string>>,
  { store }: ReconcileDeps,
): Promise<void> {
  const operations: readonly JsonPatchOperation[] = [
    { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
    { op: "add", path: "/data", value: data },
  ];
  await store.patch(SECRETS, metadata, { type: "json", operations });
}

function writeSecret(
  observation: Observation,
  contents: Contents,
  deps: ReconcileDeps,
): Promise<void> {
  return writeData(observation.secret, printContents(contents), deps);
}

async function makeAuthority(observation: Observation, deps: ReconcileDeps): Promise<void> {
  const { contents } = observation.certificates;
  const newAuthority = await createAuthority(AUTHORITY_NAME, deps.clock);
  // The bundle retains previous CAs, so that their certificates remain valid until renewal.
  const previousAuthorities = listValidAuthorities(contents.bundlePem, deps.clock.now());
  const bundlePem = [newAuthority.certPem, ...previousAuthorities].join("");
  await writeSecret(observation, { ...contents, bundlePem, caKeyPem: newAuthority.keyPem }, deps);
}

function issueServerCertificate(
  authority: IssuedCertificate,
  commonName: string,
  deps: ReconcileDeps,
): Promise<IssuedCertificate> {
  return issueCertificate(loadAuthority(authority, deps.clock), {
    commonName,
    organizations: [],
    dnsNames: SERVER_NAMES[commonName] ?? [commonName],
    ipAddresses: [],
    usages: ["server"],
    validDays: SERVING_VALID_DAYS,
  });
}

async function issueServing(observation: Observation, deps: ReconcileDeps): Promise<void> {
  const { contents, authority } = observation.certificates;
  if (authority === undefined) return;
  const { certPem, keyPem } = await issueServerCertificate(authority, SERVER_NAME, deps);
  await writeSecret(observation, { ...contents, certPem, keyPem }, deps);
}

/** Issues one serving certificate for all virt-handlers. Their Secret contains the CA bundle, but no CA key. */
async function issueHandlers(
  { certificates, handlers }: Observation,
  deps: ReconcileDeps,
): Promise<void> {
  const { contents, authority } = certificates;
  if (authority === undefined || handlers === undefined) return;
  const { certPem, keyPem } = await issueServerCertificate(authority, HANDLER_SERVER_NAME, deps);
  const { bundlePem } = contents;
  await writeData(handlers, printContents({ bundlePem, certPem, keyPem }), deps);
}

/** Builds a patch that writes the CA bundle to all webhooks. The patch uses their indexes, and fails if the webhooks' order has changed. */
function buildWebhookOperations(
  webhooks: NonNullable<WebhookConfiguration["webhooks"]>,
  caBundle: string,
): readonly JsonPatchOperation[] {
  return webhooks.flatMap(({ name }, index): readonly JsonPatchOperation[] => [
    { op: "test", path: `/webhooks/${String(index)}/name`, value: name },
    { op: "add", path: `/webhooks/${String(index)}/clientConfig/caBundle`, value: caBundle },
  ]);
}

async function writeBundle(
  target: Target,
  { caBundle }: Observation,
  deps: ReconcileDeps,
): Promise<void> {
  const { store } = deps;
  if (isVersion(target)) {
    const fields = { spec: { caBundle } };
    await store.patch(API_SERVICES, apiServiceKey(target), { type: "merge", fields });
    return;
  }
  const type = target === "mutating" ? MUTATING_WEBHOOKS : VALIDATING_WEBHOOKS;
  const operations = buildWebhookOperations(deps[target].find(WEBHOOKS)?.webhooks ?? [], caBundle);
  await store.patch(type, WEBHOOKS, { type: "json", operations });
}

async function runAction(
  action: CertificateAction,
  observation: Observation,
  deps: ReconcileDeps,
): Promise<void> {
  switch (action.kind) {
    case "makeAuthority":
      return makeAuthority(observation, deps);
    case "writeBundle":
      return writeBundle(action.target, observation, deps);
    case "issueHandlers":
      return issueHandlers(observation, deps);
    case "issueServing":
      return issueServing(observation, deps);
  }
}

/** Reconciles certificates once. @throws AppError with KUBE_NOT_FOUND if the Secret is missing, KUBE_CONFLICT after a concurrent write */
export async function reconcileCertificates(deps: ReconcileDeps): Promise<Next> {
  const observation = observe(deps);
  const { actions, nextCheckMs } = planCertificates(collectFacts(observation, deps));
  for (const action of actions) {
    await runAction(action, observation, deps);
    deps.log.info("updated certificates", { ...action });
  }
  return after(nextCheckMs);
}
