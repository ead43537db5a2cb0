// SPDX-License-Identifier: Apache-2.0
// Keeps virt-api's own certificates in a Secret, and everybody told who signs them. Several may do so at once: each
// write rests on the version that was read, and who is late reads again.
import {
  API_SERVICES,
  MUTATING_WEBHOOKS,
  names,
  SECRETS,
  VALIDATING_WEBHOOKS,
  type ApiService,
  type JsonPatchOperation,
  type Secret,
  type WebhookConfiguration,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { after, type Next } from "@patchbay/kube";
import { createAuthority, issueCertificate, loadAuthority } from "@patchbay/pki";
import type { Cache, Clock, Logger, Store } from "@patchbay/core/ports";
import { VERSIONS, type Version } from "../routes/table.ts";
import {
  livingAuthorities,
  printContents,
  readKept,
  SECRET_KEY,
  SERVER_NAME,
  type Contents,
  type Kept,
} from "./kept.ts";
import {
  planCertificates,
  SERVING_VALID_DAYS,
  type CertificateAction,
  type CertificateFacts,
  type Target,
} from "./plan.ts";

/** Common name of an authority; which one it is, its key says. */
const AUTHORITY_NAME = "patchbay-virt-api";
const WEBHOOKS = { name: names.WEBHOOKS_NAME } as const;

/** The APIService of a version. */
export function apiServiceKey(version: Version): { readonly name: string } {
  return { name: `${version}.${names.SUBRESOURCES_GROUP}` };
}

function isVersion(target: Target): target is Version {
  return VERSIONS.some((version) => version === target);
}

/** The objects that certificates are about, as watches tell of them. */
export interface KeeperCaches {
  readonly secrets: Cache<Secret>;
  readonly apiServices: Readonly<Record<Version, Cache<ApiService>>>;
  readonly mutating: Cache<WebhookConfiguration>;
  readonly validating: Cache<WebhookConfiguration>;
}

/** What a pass works with. */
export interface KeeperDeps extends KeeperCaches {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What a pass has seen. */
interface Seen {
  readonly secret: Secret;
  readonly kept: Kept;
  /** As objects carry it: base64. */
  readonly caBundle: string;
}

function bundlesIn(target: Target, caches: KeeperCaches): readonly unknown[] | undefined {
  if (isVersion(target)) {
    const found = caches.apiServices[target].find(apiServiceKey(target));
    return found === undefined ? undefined : [found.spec.caBundle];
  }
  const webhooks = caches[target].find(WEBHOOKS)?.webhooks;
  return webhooks?.map(({ clientConfig }) => clientConfig.caBundle);
}

function observe(deps: KeeperDeps): Seen {
  const secret = deps.secrets.find(SECRET_KEY);
  if (secret === undefined) {
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "secret", object });
  }
  const kept = readKept(secret);
  return { secret, kept, caBundle: Buffer.from(kept.contents.bundlePem).toString("base64") };
}

function factsOf({ kept, caBundle }: Seen, deps: KeeperDeps): CertificateFacts {
  const { authority, serving } = kept;
  const targets = ([...VERSIONS, "mutating", "validating"] as const).flatMap((target) => {
    const bundles = bundlesIn(target, deps);
    if (bundles === undefined) return [];
    return [{ target, isCurrent: bundles.every((bundle) => bundle === caBundle) }];
  });
  return {
    nowMs: deps.clock.now(),
    ...(authority !== undefined && { authorityEndMs: authority.endMs }),
    ...(serving !== undefined && { servingEndMs: serving.endMs }),
    targets,
  };
}

/** Writes the Secret, if it is still the one that was read. */
async function writeSecret(seen: Seen, contents: Contents, { store }: KeeperDeps): Promise<void> {
  const { resourceVersion } = seen.secret.metadata;
  const operations: readonly JsonPatchOperation[] = [
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    { op: "add", path: "/data", value: printContents(contents) },
  ];
  await store.patch(SECRETS, SECRET_KEY, { type: "json", operations });
}

async function makeAuthority(seen: Seen, deps: KeeperDeps): Promise<void> {
  const { contents } = seen.kept;
  const made = await createAuthority(AUTHORITY_NAME, deps.clock);
  // What the others have signed is good until it is replaced.
  const others = livingAuthorities(contents.bundlePem, deps.clock.now());
  const bundlePem = [made.certPem, ...others].join("");
  await writeSecret(seen, { ...contents, bundlePem, caKeyPem: made.keyPem }, deps);
}

async function issueServing(seen: Seen, deps: KeeperDeps): Promise<void> {
  const { contents, authority } = seen.kept;
  if (authority === undefined) return;
  const { certPem, keyPem } = await issueCertificate(loadAuthority(authority, deps.clock), {
    commonName: SERVER_NAME,
    organizations: [],
    dnsNames: [SERVER_NAME, `${SERVER_NAME}.cluster.local`, "localhost"],
    ipAddresses: [],
    usages: ["server"],
    validDays: SERVING_VALID_DAYS,
  });
  await writeSecret(seen, { ...contents, certPem, keyPem }, deps);
}

/** Tells all webhooks of a configuration; what was inserted before them meanwhile makes the patch fail. */
function webhookOperations(
  webhooks: NonNullable<WebhookConfiguration["webhooks"]>,
  caBundle: string,
): readonly JsonPatchOperation[] {
  return webhooks.flatMap(({ name }, index): readonly JsonPatchOperation[] => [
    { op: "test", path: `/webhooks/${String(index)}/name`, value: name },
    { op: "add", path: `/webhooks/${String(index)}/clientConfig/caBundle`, value: caBundle },
  ]);
}

async function writeBundle(target: Target, { caBundle }: Seen, deps: KeeperDeps): Promise<void> {
  const { store } = deps;
  if (isVersion(target)) {
    const fields = { spec: { caBundle } };
    await store.patch(API_SERVICES, apiServiceKey(target), { type: "merge", fields });
    return;
  }
  const type = target === "mutating" ? MUTATING_WEBHOOKS : VALIDATING_WEBHOOKS;
  const operations = webhookOperations(deps[target].find(WEBHOOKS)?.webhooks ?? [], caBundle);
  await store.patch(type, WEBHOOKS, { type: "json", operations });
}

async function act(action: CertificateAction, seen: Seen, deps: KeeperDeps): Promise<void> {
  switch (action.kind) {
    case "makeAuthority":
      return makeAuthority(seen, deps);
    case "writeBundle":
      return writeBundle(action.target, seen, deps);
    case "issueServing":
      return issueServing(seen, deps);
  }
}

/**
 * One pass; safe to repeat, and to run beside another process's.
 * @throws AppError with KUBE_NOT_FOUND while the Secret is not installed, KUBE_CONFLICT when another one was faster
 */
export async function keepCertificates(deps: KeeperDeps): Promise<Next> {
  const seen = observe(deps);
  const { actions, lookAgainMs } = planCertificates(factsOf(seen, deps));
  for (const action of actions) {
    await act(action, seen, deps);
    deps.log.info("certificates kept", { ...action });
  }
  return after(lookAgainMs);
}
