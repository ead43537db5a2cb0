// SPDX-License-Identifier: Apache-2.0
// Sets the service account of new pods, and adds the volume with its token. Source: Kubernetes ServiceAccount admission.
import type { Clock } from "@patchbay/base";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { CONTAINER_LISTS, objectItems } from "../kinds/workload/pod-defaults.ts";
import { type Fields, copyJson, asFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Mutation } from "./admission.ts";

const MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_NAME_PREFIX = "kube-api-access-";
/** File mode 0644 in decimal. Source: Kubernetes ServiceAccount admission. */
const VOLUME_MODE = 420;
/** Lifetime of injected tokens, 1 h and 7 s. Kubernetes recognizes injected tokens by this value. Source: ServiceAccount admission. */
const TOKEN_EXPIRATION_SECONDS = 3607;

function tokenVolume(name: string): Fields {
  const namespace = { apiVersion: "v1", fieldPath: "metadata.namespace" };
  return {
    name,
    projected: {
      defaultMode: VOLUME_MODE,
      sources: [
        { serviceAccountToken: { expirationSeconds: TOKEN_EXPIRATION_SECONDS, path: "token" } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: namespace }] } },
      ],
    },
  };
}

function shouldMountToken(spec: Fields, account: unknown): boolean {
  const podSetting = spec["automountServiceAccountToken"];
  return (podSetting ?? valueAt(account, "automountServiceAccountToken") ?? true) === true;
}

function hasMount(container: Fields): boolean {
  return asList(container["volumeMounts"]).some(
    (mount) => textAt(mount, "mountPath") === MOUNT_PATH,
  );
}

/** Adds a token volume for containers without a mount at the token path, unless the pod or its account disables automounting. */
export function addTokenVolume(spec: Fields, account: unknown, suffix: () => string): void {
  if (!shouldMountToken(spec, account)) {
    return;
  }
  const containers = CONTAINER_LISTS.flatMap((list) => objectItems(spec, list));
  const unmountedContainers = containers.filter((container) => !hasMount(container));
  if (unmountedContainers.length === 0) {
    return;
  }
  const volumes = asList(spec["volumes"]);
  const existingName = volumes
    .map((volume) => textAt(volume, "name"))
    .find((name) => name.startsWith(VOLUME_NAME_PREFIX));
  const name = existingName ?? `${VOLUME_NAME_PREFIX}${suffix()}`;
  if (existingName === undefined) {
    spec["volumes"] = [...volumes, tokenVolume(name)];
  }
  for (const container of unmountedContainers) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container["volumeMounts"] = [...asList(container["volumeMounts"]), mount];
  }
}

/** Name of the account that a controller creates in each namespace. */
export const DEFAULT_ACCOUNT = "default";

const DEFAULT_ACCOUNT_WAIT_MS = 1000;

const BUCKET = "/serviceaccounts";

interface AccountLookup {
  readonly store: Pick<Store, "find" | "subscribe">;
  readonly clock: Clock;
  readonly random: { readonly suffix: () => string };
}

/** Returns the account, or undefined if it does not exist. Waits up to 1 s for a controller to create the default account. */
async function waitForAccount(
  lookup: AccountLookup,
  address: { readonly namespace: string; readonly name: string },
): Promise<KubeObject | undefined> {
  const find = () => lookup.store.find({ bucket: BUCKET, ...address })?.view();
  const existingAccount = find();
  if (existingAccount !== undefined || address.name !== DEFAULT_ACCOUNT) {
    return existingAccount;
  }
  const sleepController = new AbortController();
  const unsubscribe = lookup.store.subscribe(() => {
    if (find() !== undefined) {
      sleepController.abort();
    }
  });
  try {
    await lookup.clock.sleep(DEFAULT_ACCOUNT_WAIT_MS, sleepController.signal);
  } catch {
    // The subscription aborts the sleep when the account exists.
  } finally {
    unsubscribe();
  }
  return find();
}

function addPullSecrets(spec: Fields, account: KubeObject): void {
  const secrets = asList(account["imagePullSecrets"]);
  if (asList(spec["imagePullSecrets"]).length === 0 && secrets.length > 0) {
    spec["imagePullSecrets"] = copyJson(secrets);
  }
}

/** Sets a new pod's service account, its pull secrets and the token volume. Throws a StatusError 403 if the account does not exist. */
export async function setServiceAccount(request: Mutation, lookup: AccountLookup): Promise<void> {
  const { kind, subresource, operation, object, namespace } = request;
  if (
    kind.group !== "" ||
    kind.resource !== "pods" ||
    subresource !== "" ||
    operation !== "CREATE"
  ) {
    return;
  }
  const spec = asFields(object["spec"]);
  const name =
    textAt(spec, "serviceAccountName") || textAt(spec, "serviceAccount") || DEFAULT_ACCOUNT;
  const account = await waitForAccount(lookup, { namespace, name });
  if (account === undefined) {
    const pod = { group: "", resource: "pods", name: object.metadata.name };
    throw forbiddenBecause(
      pod,
      `error looking up service account ${namespace}/${name}: serviceaccount "${name}" not found`,
    );
  }
  spec["serviceAccountName"] = name;
  spec["serviceAccount"] = name;
  addPullSecrets(spec, account);
  addTokenVolume(spec, account, lookup.random.suffix);
}
