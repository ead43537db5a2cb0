// SPDX-License-Identifier: Apache-2.0
// Certificates in the cluster: virt-api's own in a Secret, and the CA of the front proxy in a ConfigMap.
import {
  API_SERVICES,
  CONFIG_MAPS,
  MUTATING_WEBHOOKS,
  names,
  SECRETS,
  VALIDATING_WEBHOOKS,
  type ResourceType,
} from "@patchbay/api";
import { parseJson } from "@patchbay/api/json";
import type { ConfigMap, KubeObject, Secret } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { DaemonContext, KeyPair, Source, Trust } from "@patchbay/daemon";
import {
  createCache,
  createQueue,
  runReconciler,
  waitForCaches,
  type StartableCache,
} from "@patchbay/kube";
import type { Cache, ObjectKey } from "@patchbay/core/interfaces";
import { createIssuedCredentials, type ReadCredentials } from "../handlers/credentials.ts";
import type { Version } from "../routes/table.ts";
import { apiServiceKey, reconcileCertificates } from "./reconcile.ts";
import {
  readAuthorityFrom,
  type ReadAuthority,
  readContents,
  HANDLERS_KEY,
  SECRET_KEY,
} from "./secret.ts";

/** ConfigMap with the CA of the front proxy. Source: Kubernetes "Configure the Aggregation Layer". */
export const AUTHENTICATION_KEY = {
  namespace: "kube-system",
  name: "extension-apiserver-authentication",
} as const;

function followCache<T extends KubeObject>(cache: Cache<T>): Source<unknown>["onChange"] {
  return (changed, signal) => {
    signal.addEventListener("abort", cache.onChange(changed), { once: true });
  };
}

export function createCertificateSource(secrets: Cache<Secret>): Source<KeyPair> {
  const read = (): Promise<KeyPair> => {
    const { certPem, keyPem } = readContents(secrets.find(SECRET_KEY) ?? {});
    if (certPem !== "" && keyPem !== "") return Promise.resolve({ certPem, keyPem });
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    const resource = "the certificate in secret";
    return Promise.reject(new AppError("KUBE_NOT_FOUND", { resource, object }));
  };
  return { read, onChange: followCache(secrets) };
}

/** Parses the allowed client names. Returns undefined for malformed text. An empty list allows every client certificate of the CA. */
function parseNames(text: string | undefined): readonly string[] | undefined {
  const parsed = parseJson(text ?? "[]");
  const isValid = Array.isArray(parsed) && parsed.every((name) => typeof name === "string");
  return isValid ? parsed : undefined;
}

/** Creates a trust source from the ConfigMap. If the ConfigMap is missing or malformed, trusts no client. */
export function createTrustSource(configMaps: Cache<ConfigMap>): Source<Trust> {
  const read = (): Promise<Trust> => {
    const data = configMaps.find(AUTHENTICATION_KEY)?.data ?? {};
    const names = parseNames(data["requestheader-allowed-names"]);
    const caPem = names === undefined ? "" : (data["requestheader-client-ca-file"] ?? "");
    return Promise.resolve({ caPem, names: names ?? [] });
  };
  return { read, onChange: followCache(configMaps) };
}

/** Watches a single object, because virt-api's role permits no other objects of the kind. */
function watchObject<T extends KubeObject>(
  { client, log, signal }: DaemonContext,
  type: ResourceType<T>,
  { namespace, name }: ObjectKey,
): StartableCache<T> {
  const fieldSelector = `metadata.name=${name}`;
  const selection = { fieldSelector, ...(namespace !== undefined && { namespace }) };
  const cache = createCache(client.reflect(type, selection), { logger: log });
  cache.start(signal);
  return cache;
}

export async function followFrontProxy(context: DaemonContext): Promise<Source<Trust>> {
  const configMaps = watchObject(context, CONFIG_MAPS, AUTHENTICATION_KEY);
  await waitForCaches([configMaps], context.signal);
  if (!context.signal.aborted && configMaps.find(AUTHENTICATION_KEY) === undefined) {
    const { namespace, name } = AUTHENTICATION_KEY;
    context.log.warn(
      "rejecting subresource requests until the API server publishes its front proxy's CA",
      {
        configMap: `${namespace}/${name}`,
      },
    );
  }
  return createTrustSource(configMaps);
}

async function waitUntilReadable(source: Source<KeyPair>, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const stopped = new AbortController();
  const check = (): void => {
    source.read().then(
      () => {
        resolve(undefined);
      },
      () => undefined,
    );
  };
  signal.addEventListener(
    "abort",
    () => {
      resolve(undefined);
    },
    { once: true },
  );
  source.onChange(check, stopped.signal);
  check();
  await promise;
  stopped.abort();
}

/** Certificates of virt-api. `serving` is the server certificate; `handlerCredentials` is the client certificate for virt-handlers. */
export interface OwnCertificates {
  readonly serving: Source<KeyPair>;
  readonly handlerCredentials: ReadCredentials;
  readonly authority: ReadAuthority;
}

/** Creates and renews virt-api's certificates until the signal is aborted. Resolves when a serving certificate exists. */
export async function manageOwnCertificates(context: DaemonContext): Promise<OwnCertificates> {
  const { client, clock, log, health, signal } = context;
  const watch = health.watchLoop("certificates");
  const webhooks = { name: names.WEBHOOKS_NAME };
  const watchApiService = (version: Version) =>
    watchObject(context, API_SERVICES, apiServiceKey(version));
  const apiServices = { v1: watchApiService("v1"), v1alpha3: watchApiService("v1alpha3") };
  const caches = {
    secrets: watchObject(context, SECRETS, SECRET_KEY),
    handlers: watchObject(context, SECRETS, HANDLERS_KEY),
    mutating: watchObject(context, MUTATING_WEBHOOKS, webhooks),
    validating: watchObject(context, VALIDATING_WEBHOOKS, webhooks),
  };
  const watched = [...Object.values(apiServices), ...Object.values(caches)];
  await waitForCaches(watched, signal);
  const queue = createQueue({ clock });
  const key = SECRET_KEY.name;
  for (const cache of watched) {
    cache.onChange(() => {
      queue.add(key);
    });
  }
  queue.add(key);
  const reconcile = (): ReturnType<typeof reconcileCertificates> =>
    reconcileCertificates({ ...caches, apiServices, store: client.store, clock, log });
  void runReconciler({ name: "certificates", queue, reconcile, log, clock, watch }, signal);
  const serving = createCertificateSource(caches.secrets);
  await waitUntilReadable(serving, signal);
  return {
    serving,
    handlerCredentials: createIssuedCredentials(caches.secrets, clock),
    authority: readAuthorityFrom(caches.secrets, clock),
  };
}
